"""With limits on: after every kind of ending nobody runs, waits or sits anywhere, in any worker's books."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.admission.keys import hashed
from gateway.admission.table import Table
from gateway.spec import EngineSpec, FleetSpec, KeySpec, LimitsSpec, RoomSpec
from tests.admission.staging import spec
from tests.failures.processes import Whole, engine_that, serving
from tests.failures.support import NOT_STREAMED, PATH, at_once, number, numbered
from tests.failures.test_h16_slot_never_freed import (
    ENGINES,
    LARGE,
    LIMITS,
    OURS,
    REQUESTS,
    silent_after,
)
from tests.support import (
    CHAT,
    SSE_HEAD,
    TOKEN,
    Answered,
    Engine,
    Gateway,
    Peer,
    ask,
    event,
    post,
    running,
    until,
)
from tests.support_shared import WAYS, run

WELL = list(ENGINES).index("a stream")
ROOM, SEATS, QUEUE = 24, 16, 12
ANYBODY = KeySpec("anonymous", 0, requests_per_s=1e6, requests_burst=1_000_000, concurrency=60)
EVERYONE = {"prompt_tokens_per_s": 1e6, "prompt_tokens_burst": 10_000_000, "concurrency": 60}


async def by_number(peer: Peer) -> None:
    await list(ENGINES.values())[number(peer)](peer)


async def limited(*engines: Engine, room: int = ROOM) -> dict[str, object]:
    """What `running` is told: engines with so many places, and a fleet with fewer than requests come."""
    for engine in engines:
        await engine.start()
    specs = tuple(EngineSpec(i, e.url, kind="vllm", concurrency=SEATS) for i, e in enumerate(engines))
    return {
        "fleets": (FleetSpec(None, (), True, specs, "least_load"),),
        "limits": LIMITS,
        "admission": spec((ANYBODY,), (RoomSpec(None, concurrency=room),), EVERYONE, queue_entries=QUEUE),
    }


def held(gateway: Gateway) -> dict[str, int]:
    """What is held now, by the names of the cells."""
    table = gateway.held
    counted = {
        "everyone": table.total(table.inflight + table.all_keys),
        "key": table.total(table.inflight),
        "running": table.total(table.running),
        "waiting": table.total(table.waiting),
        "waiting bytes": table.total(table.waiting_bytes),
        **{f"seat {n}": table.total(table.seats + n) for n in range(2)},
    }
    return {name: n for name, n in counted.items() if n}


async def nothing_is_held(gateway: Gateway, after: str = "") -> None:
    try:
        await until(lambda: not any(gateway.held.leases(0)), 15)
    except TimeoutError:
        pytest.fail(f"{after}: {held(gateway)} are left")
    assert min(gateway.held.leases(0)) == 0


class Most:
    """How much was held at once, looked at now and then."""

    def __init__(self, gateway: Gateway, room: int = ROOM) -> None:
        self._gateway = gateway
        self._room = room
        self.seen: dict[str, int] = {}
        self._task = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while True:
            for name, n in held(self._gateway).items():
                self.seen[name] = max(n, self.seen.get(name, 0))
            await asyncio.sleep(0.002)

    def end(self) -> None:
        self._task.cancel()
        assert self.seen["running"] <= self._room and self.seen.get("waiting", 0) <= QUEUE
        assert all(self.seen.get(f"seat {n}", 0) <= SEATS for n in range(2))


def test_h16_slot_never_freed_with_limits_however_the_engine_ends() -> None:
    async def test() -> None:
        fleet = [Engine(by_number), Engine(by_number)]
        async with running(*fleet, **await limited(*fleet, room=8)) as gateway:  # type: ignore[arg-type]
            most = Most(gateway, room=8)
            bodies = [body for body in REQUESTS.values() for _ in range(2)]
            got = await at_once(
                (ask(gateway.port, numbered(n, body), 60) for body in bodies for n in range(len(ENGINES))), 50
            )
            assert not {one.status for one in got} & {401, 429}
            await nothing_is_held(gateway)
            most.end()
            assert most.seen["waiting"] > 0  # or this would not have tried a turn's coming
            for n, name in enumerate(ENGINES):  # one by one, to name the one at fault
                if not name.startswith("silence"):
                    await asyncio.gather(
                        *(ask(gateway.port, numbered(n, body)) for body in REQUESTS.values())
                    )
                    await nothing_is_held(gateway, name)
            assert (await ask(gateway.port, numbered(WELL))).text.endswith(b"[DONE]\n\n")

    run(test())


def test_h16_slot_never_freed_with_limits_however_and_whenever_the_client_leaves() -> None:
    """Before, while and after it came, with little room."""

    async def test() -> None:
        fleet = [Engine(by_number), Engine(by_number)]
        async with running(*fleet, **await limited(*fleet, room=2)) as gateway:  # type: ignore[arg-type]

            async def leave(n: int, way: str, wait_ms: int, body: bytes) -> None:
                _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                writer.write(numbered(n, body, close=False))
                await asyncio.sleep(wait_ms / 1e3)
                WAYS[way](writer)
                writer.close()

            most = Most(gateway, room=2)
            await at_once(
                (
                    leave(n, way, wait_ms, body)
                    for n in range(len(ENGINES))
                    for way in WAYS
                    for wait_ms in (0, 5, 30)
                    for body in (CHAT, NOT_STREAMED, LARGE)
                ),
                20,
            )
            await nothing_is_held(gateway)
            most.end()
            assert (await ask(gateway.port, numbered(WELL))).text.endswith(b"[DONE]\n\n")

    run(test())


@pytest.mark.parametrize("way", WAYS)
def test_h16_slot_never_freed_with_limits_by_clients_that_leave_the_queue(way: str) -> None:
    async def test() -> None:
        engine = Engine(silent_after(SSE_HEAD + event(TOKEN)))
        told = await limited(engine, room=1)
        told["limits"] = LimitsSpec(drain_s=0.2)
        async with running(engine, **told) as gateway:  # type: ignore[arg-type]
            writers: list[asyncio.StreamWriter] = []
            for n in range(1 + QUEUE):
                _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                writers.append(writer)
                writer.write(numbered(n, close=False))
                await until(lambda n=n: held(gateway).get("everyone") == n + 1)  # type: ignore[misc]
            for writer in writers[1:]:
                WAYS[way](writer)
            await until(lambda: held(gateway) == {"everyone": 1, "key": 1, "running": 1, "seat 0": 1})
            WAYS[way](writers[0])
            await nothing_is_held(gateway)
            assert len(engine.asked) == 1
            for writer in writers:
                writer.close()

    run(test())


@pytest.mark.parametrize("is_full", [False, True], ids=["room", "no room"])
def test_h16_slot_never_freed_with_limits_however_the_gateway_refuses(is_full: bool) -> None:
    """Also of those for which there is no room, and which find the queue full."""

    async def test() -> None:
        go_on = asyncio.Event()

        async def script(peer: Peer) -> None:
            if peer.line.endswith("?hold HTTP/1.1"):
                await go_on.wait()
            await list(ENGINES.values())[WELL](peer)

        engine = Engine(script)
        told = await limited(engine)
        told["limits"] = LimitsSpec(read_bytes=20_000, body_bytes=100_000, drain_s=5.0)
        async with running(engine, **told) as gateway:  # type: ignore[arg-type]
            holds: list[asyncio.Task[Answered]] = []
            if is_full:
                hold = post(CHAT, f"{PATH}?hold")
                loop = asyncio.get_running_loop()
                holds = [loop.create_task(ask(gateway.port, hold, 60)) for _ in range(SEATS + QUEUE)]
                await until(lambda: held(gateway).get("waiting") == QUEUE)
            before = held(gateway)
            for name, ends in OURS.items():
                await asyncio.gather(*(ends(gateway.port) for _ in range(3)))
                try:
                    await until(lambda: held(gateway) == before, 30)
                except TimeoutError:
                    pytest.fail(f"{name}: {held(gateway)} instead of {before}")
            go_on.set()
            assert {(await one).status for one in holds} <= {200}
            await nothing_is_held(gateway)

    run(test())


def test_h16_slot_never_freed_with_limits_where_nobody_is() -> None:
    async def test() -> None:
        engine = Engine(by_number)
        told = await limited(engine)
        async with running(engine, **told) as gateway:  # type: ignore[arg-type]
            await engine.stop()
            got = await at_once(ask(gateway.port, numbered(WELL)) for _ in range(60))
            assert {one.status for one in got} <= {502, 503}
            await nothing_is_held(gateway)

    run(test())


def test_h16_slot_never_freed_with_limits_when_a_drain_cuts_what_runs_and_waits() -> None:
    async def test() -> None:
        engine = Engine(silent_after(SSE_HEAD + event(TOKEN)))
        told = await limited(engine)
        told["limits"] = LimitsSpec(drain_s=0.2)
        async with running(engine, **told) as gateway:  # type: ignore[arg-type]
            table = Table.open(gateway.held.path)
            loop = asyncio.get_running_loop()
            asking = [loop.create_task(ask(gateway.port, post())) for _ in range(SEATS + QUEUE)]
            await until(lambda: table.total(table.waiting) == QUEUE)
            gateway.stop.set()
            statuses = [one.status for one in await asyncio.gather(*asking)]
            assert sorted(statuses) == [200] * SEATS + [503] * QUEUE
        assert not any(table.leases(0))
        assert len(engine.asked) == SEATS  # nobody's turn came of others' ends
        table.close()

    run(test())


def test_h16_slot_never_freed_with_limits_when_a_worker_is_killed(tmp_path: Path) -> None:
    """What it held is free for the one in its place."""

    async def test() -> None:
        asked = 0

        async def script(peer: Peer) -> None:
            nonlocal asked
            asked += 1
            await (silent_after(SSE_HEAD + event(TOKEN)) if asked == 1 else list(ENGINES.values())[WELL])(
                peer
            )

        path = tmp_path / "config.json"
        async with engine_that(script) as engine:
            fleets = [{"model": "m", "engines": [engine.url], "concurrency": 1, "engine_concurrency": 1}]
            everyone = {"limits": {"concurrency": 1}}
            path.write_text(json.dumps({"fleets": fleets, "admission": everyone, "limits": {"drain_s": 1}}))
            async with serving(tmp_path, "--config", str(path)) as whole:
                first = asyncio.get_running_loop().create_task(ask(whole.port, post(), 30))
                await until(lambda: asked == 1)
                assert (await ask(whole.port, post())).status == 503
                worker = whole.child("_worker")
                assert worker is not None
                os.kill(worker, signal.SIGKILL)
                assert not (await first).is_whole
                async with asyncio.timeout(20):
                    while (await ask(whole.port, post())).status != 200:
                        await asyncio.sleep(0.1)

    run(test())


async def gauges(whole: Whole, *names: str) -> dict[str, float]:
    """The series of these gauges that are not 0."""
    found = (line.rpartition(" ") for line in await whole.metrics())
    return {
        series: float(value)
        for series, _, value in found
        if series.partition("{")[0] in names and float(value) != 0
    }


def test_h16_slot_never_freed_with_limits_by_any_worker_and_its_gauges_say_so(tmp_path: Path) -> None:
    """Two workers, a key, every ending at once, and clients that leave: then all gauges are back at zero."""

    async def test() -> None:
        path = tmp_path / "config.json"
        bearer = "Authorization: Bearer sl-secret"
        async with engine_that(by_number) as one, engine_that(by_number) as two:
            told = {
                "workers": 2,
                "keys": [{"name": "team", "hash": hashed("sl-secret"), "limits": {"concurrency": 60}}],
                "admission": {"limits": {"requests_per_s": 100_000, "prompt_tokens_per_s": 1_000_000}},
                "fleets": [{"model": "m", "engines": [one.url, two.url], "engine_concurrency": 8}],
                "limits": {"drain_s": 1, "first_token_timeout_s": 0.4, "idle_timeout_s": 0.4},
            }
            path.write_text(json.dumps(told))
            async with serving(tmp_path, "--config", str(path)) as whole:
                stays: Callable[[int, bytes], bytes] = lambda n, body: numbered(n, body, bearer)  # noqa: E731

                async def leave(n: int) -> None:
                    _, writer = await asyncio.open_connection("127.0.0.1", whole.port)
                    writer.write(stays(n, CHAT))
                    await asyncio.sleep(0.005)
                    writer.close()

                asked = (
                    ask(whole.port, stays(n, body), 60)
                    for n in range(len(ENGINES))
                    for body in REQUESTS.values()
                )
                got, _ = await asyncio.gather(
                    at_once(asked, 40), at_once((leave(n) for n in range(len(ENGINES))), 10)
                )
                assert 401 not in {one.status for one in got}
                names = ("shadowlane_inflight", "shadowlane_waiting", "shadowlane_key_inflight")
                async with asyncio.timeout(20):
                    while left := await gauges(whole, *names):
                        await asyncio.sleep(0.2)
                assert left == {}
                served = await gauges(whole, "shadowlane_key_requests_total")
                assert served['shadowlane_key_requests_total{key="team"}'] > 0

    run(test())
