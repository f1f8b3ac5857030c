"""H40 reload-shutdown-limits: a bad config costs nothing, a reload cuts nobody, many at once are served."""

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from gateway.admission.keys import hashed
from tests.gateway.whole import Whole, begin, put, serving, with_engines
from tests.support import (
    FINISH,
    LAST,
    SSE_HEAD,
    TOKEN,
    Answered,
    Engine,
    Peer,
    ask,
    event,
    post,
    running,
    streams,
    until,
)
from tests.support_shared import later

STREAMS = 10


class Slow:
    """An engine whose streams wait to be let go, while its short answers do not."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.engine = Engine(self._script)
        self.waiting = 0

    async def _script(self, peer: Peer) -> None:
        await peer.send(SSE_HEAD, event(TOKEN))
        if b"slow" in peer.body:
            self.waiting += 1
            await self.go_on.wait()
        await peer.send(event(TOKEN), event(FINISH), event("[DONE]"), LAST)


SLOW = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"slow"}]}'


async def slow_streams(slow: Slow, port: int) -> "list[asyncio.Task[Answered]]":
    """Streams that have begun and wait."""
    before = slow.waiting
    asked = [later(ask(port, post(SLOW), 60)) for _ in range(STREAMS)]
    await until(lambda: slow.waiting == before + STREAMS)
    return asked


def settings(*engines: Engine, **more: Any) -> dict[str, Any]:
    return {"fleets": [{"model": "m", "engines": [{"url": e.url, "kind": "vllm"} for e in engines]}], **more}


BROKEN = [
    '{"fleets": [',
    "fleets: [{model: m, engines: [http://127.0.0.1:1]}",
    "",
    "\x00\x01",
    "fleets: []",
    "fleets: [{model: m, engines: [nonsense]}]",
    "fleets: [{model: m, engines: [http://127.0.0.1:1], policy: {name: nobody}}]",
    "fleets: [{model: m, engines: [http://127.0.0.1:1]}]\nlimit: {}",
    "fleets: [{model: m, engines: ['http://127.0.0.1:1', '${NO_SUCH_VARIABLE}']}]",
]


def test_every_bad_config_is_refused_shown_and_forgotten_and_the_good_one_serves_on(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        slow = Slow()
        await begin(stack, slow.engine)
        async with serving(tmp_path, settings(slow.engine)) as whole:
            asked = await slow_streams(slow, whole.port)
            good = whole.file.read_text()
            for n, broken in enumerate(BROKEN):
                put(whole.file, broken)
                status, said = await whole.reload()
                assert status == 422, (broken, said)
                assert str(whole.file) in said["error"]["message"]
                assert (await whole.status())["config"]["error"] == said["error"]["message"]
                assert await whole.metric("shadowlane_config_ok") == 0
                assert (await ask(whole.port, post())).status == 200
                assert whole.log.count("configuration refused") == n + 1
            whole.file.unlink()
            assert (await whole.reload())[0] == 422
            put(whole.file, good)
            status, said = await whole.reload()
            assert (status, said["reloads"]["refused"]) == (200, len(BROKEN) + 1)
            assert await whole.metric("shadowlane_config_ok") == 1
            assert await whole.metric("shadowlane_config_generation") == 1
            slow.go_on.set()
            assert all(answer.is_whole for answer in await asyncio.gather(*asked))

    with_engines(test)


FIXED: dict[str, object] = {
    "listen": "127.0.0.1:1",
    "admin": "127.0.0.1:1",
    "workers": 2,
    "state_dir": "/nowhere",
    "mirror": {"lane_bytes": 1 << 27},
    "log": {"level": "debug", "format": "json"},
}


def test_what_only_a_restart_can_change_is_refused_by_name_with_the_remedy(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engine = Engine(streams(TOKEN, FINISH))
        await begin(stack, engine)
        async with serving(tmp_path, settings(engine)) as whole:
            served = whole.settings
            for key, value in FIXED.items():
                whole.settings = served
                whole.write(**{key: value})
                status, said = await whole.reload()
                message = said["error"]["message"]
                assert status == 422 and f": {key}" in message and "restart to change it" in message, key
                assert not any(f": {other}" in message for other in FIXED if other != key), message
                assert (await ask(whole.port, post())).status == 200

    with_engines(test)


def test_streams_run_on_over_a_reload_of_everything(tmp_path: Path) -> None:
    """Engines, aliases, limits, policy and experiments change at once, by a signal, under running streams."""

    async def test(stack: AsyncExitStack) -> None:
        slow, other = Slow(), Engine(streams(TOKEN, FINISH))
        arms = [Engine(streams(TOKEN, FINISH)) for _ in range(2)]
        await begin(stack, slow.engine, other, *arms)
        async with serving(tmp_path, settings(slow.engine, workers=2)) as whole:
            asked = await slow_streams(slow, whole.port)
            whole.write(
                fleets=[
                    {
                        "model": "n",
                        "aliases": ["m"],
                        "engines": [{"url": other.url, "kind": "vllm"}],
                        "policy": {"name": "round_robin"},
                    }
                ],
                limits={"body_bytes": 2000, "drain_s": 7},
                experiments=[
                    {
                        "name": "t",
                        "sample": {"rate": 1.0},
                        "control": {"engine": arms[0].url},
                        "candidates": [{"name": "c", "engine": arms[1].url}],
                    }
                ],
            )
            whole.kill(signal.SIGHUP)
            async with asyncio.timeout(30):
                while (await whole.status())["config"].get("generation") != 2:
                    await asyncio.sleep(0.05)
            async with asyncio.timeout(30):
                while not arms[0].asked or not arms[1].asked:
                    answer = await ask(whole.port, post())
                    assert answer.status in (200, 503), answer.raw  # 503: the new engine was not heard yet
                    await asyncio.sleep(0.05)
            assert (await ask(whole.port, post(b'{"model":"m","x":"' + b"x" * 3000 + b'"}'))).status == 413
            assert len(slow.engine.asked) == STREAMS
            assert [one["name"] for one in (await whole.status())["experiments"]] == ["t"]
            slow.go_on.set()
            for done in await asyncio.gather(*asked):
                assert done.status == 200 and done.is_whole and done.text.endswith(b"[DONE]\n\n")

    with_engines(test)


def test_a_watched_file_is_taken_when_it_is_replaced_written_to_or_its_link_is_turned(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(4)]
        await begin(stack, *engines)
        async with serving(tmp_path, settings(engines[0], reload="watched")) as whole:

            async def served_by(engine: Engine) -> None:
                async with asyncio.timeout(20):
                    while not engine.asked:
                        assert (await ask(whole.port, post())).status == 200
                        await asyncio.sleep(0.05)

            await served_by(engines[0])
            whole.write(**settings(engines[1]))
            await served_by(engines[1])
            text = json.dumps({**whole.settings, **settings(engines[2])})
            with whole.file.open("w") as file:  # in place, slowly, and whole only at the end
                for at in range(0, len(text), 1 + len(text) // 6):
                    file.write(text[at : at + 1 + len(text) // 6])
                    file.flush()
                    await asyncio.sleep(0.3)
            await served_by(engines[2])
            folder = tmp_path / "..2026"
            folder.mkdir()
            (folder / "shadowlane.yaml").write_text(json.dumps({**whole.settings, **settings(engines[3])}))
            link = tmp_path / "link"
            link.symlink_to(folder / "shadowlane.yaml")
            link.rename(whole.file)
            await served_by(engines[3])

    with_engines(test)


def test_keys_in_their_own_file_are_watched_too_and_bad_ones_refused(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engine = Engine(streams(TOKEN, FINISH))
        await begin(stack, engine)
        keys = tmp_path / "keys.yaml"

        def written(*names: str) -> None:
            hashes = [{"name": name, "hash": hashed(f"sk-{name}")} for name in names]
            put(keys, json.dumps({"keys": hashes}))

        async def config(whole: Whole, **expected: object) -> None:
            async with asyncio.timeout(20):
                while True:
                    found = (await whole.status())["config"]
                    if all(found[name] == value for name, value in expected.items()):
                        return
                    await asyncio.sleep(0.1)

        written("one")
        more = {"keys_file": "keys.yaml", "reload": "watched", "admission": {"anonymous": True}}
        async with serving(tmp_path, settings(engine, **more)) as whole:
            written("one", "two")
            await config(whole, generation=2, error=None, trouble={})
            put(keys, '{"keys": [{"name": "one"}]}')
            async with asyncio.timeout(20):
                while (await whole.status())["config"]["error"] is None:
                    await asyncio.sleep(0.1)
            assert "keys.yaml" in (await whole.status())["config"]["error"]
            written("one", "two")
            await config(whole, generation=2, error=None, trouble={})
            assert (await ask(whole.port, post())).status == 200

    with_engines(test)


def test_a_worker_that_dies_comes_back_with_the_configuration_in_use(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        old, new = Engine(streams(TOKEN, FINISH)), Engine(streams(TOKEN, FINISH))
        await begin(stack, old, new)
        async with serving(tmp_path, settings(old)) as whole:
            whole.write(**settings(new))
            assert (await whole.reload())[0] == 200
            lost = whole.children()["_worker"]
            os.kill(lost, signal.SIGKILL)
            async with asyncio.timeout(30):
                while whole.children().get("_worker") in (None, lost):
                    await asyncio.sleep(0.05)
            before = len(old.asked)
            assert (await ask(whole.port, post())).status == 200
            assert new.asked and len(old.asked) == before

    with_engines(test)


def test_another_sites_page_cannot_have_the_configuration_read(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engine = Engine(streams(TOKEN, FINISH))
        await begin(stack, engine)
        async with serving(tmp_path, settings(engine)) as whole:
            for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
                async with whole.http.post(whole.admin + "/api/reload", headers=headers) as answer:
                    assert answer.status == 403
            async with whole.http.post(
                whole.admin + "/api/reload", headers={"Host": "evil.example"}
            ) as answer:
                assert answer.status == 403
            async with whole.http.get(whole.admin + "/api/reload") as answer:
                assert answer.status == 405
            assert not (await whole.status())["config"]["reloads"]
            ours = {"Origin": whole.admin, "Sec-Fetch-Site": "same-origin"}
            async with whole.http.post(whole.admin + "/api/reload", headers=ours) as answer:
                assert answer.status == 200

    with_engines(test)


def test_a_hundred_reloads_leave_no_descriptor_thread_or_process_behind(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        await begin(stack, *engines)

        def more(now: dict[str, tuple[int, int]], before: dict[str, tuple[int, int]]) -> bool:
            return any(n[0] > before[name][0] + 2 or n[1] > before[name][1] for name, n in now.items())

        def used(whole: Whole) -> dict[str, tuple[int, int]]:
            pids = {"serve": whole.process.pid, **whole.children()}
            return {
                name: (len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task")))
                for name, pid in pids.items()
            }

        async def change(whole: Whole, turn: int) -> None:
            if turn % 5 == 4:
                put(whole.file, "{")
                assert (await whole.reload())[0] == 422
            whole.write(**settings(engines[0], engines[1 + turn % 2]))
            assert (await whole.reload())[0] == 200
            assert (await ask(whole.port, post())).is_whole

        async with serving(tmp_path, settings(engines[0])) as whole:
            for turn in range(8):
                await change(whole, turn)
            await asyncio.sleep(2.5)
            before = used(whole)
            for turn in range(8, 108):
                await change(whole, turn)
            async with asyncio.timeout(90):
                while more(used(whole), before):
                    await asyncio.sleep(0.2)
            assert used(whole).keys() == before.keys()

    with_engines(test)


# The end


def test_a_hundred_and_fifty_streams_run_at_once(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        slow = Slow()
        async with running(slow.engine) as gateway:
            asked = [later(ask(gateway.port, post(SLOW), 60)) for _ in range(150)]
            await until(lambda: slow.waiting == 150, 20)
            slow.go_on.set()
            assert all(answer.is_whole for answer in await asyncio.gather(*asked))

    with_engines(test)


@pytest.mark.parametrize("says_so", [True, False], ids=["saying so", "unsaid"])
def test_two_thousand_requests_whose_engine_closes_first_leave_no_descriptor_behind(says_so: bool) -> None:
    async def test(stack: AsyncExitStack) -> None:
        async def script(peer: Peer) -> None:
            close = b"Connection: close\r\n" if says_so else b""
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + close + b"\r\n{}")
            peer.close()

        async with running(Engine(script)) as gateway:
            await ask(gateway.port, post())
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(20):
                got = await asyncio.gather(*(ask(gateway.port, post()) for _ in range(100)))
                assert {answer.status for answer in got} == {200}
            await until(lambda: len(os.listdir("/proc/self/fd")) <= before + 2, 20)
            assert gateway.inflight() == 0

    with_engines(test)
