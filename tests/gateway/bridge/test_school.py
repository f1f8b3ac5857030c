"""What workers' prompts become is asked of engines off the path, and told to every worker."""

import asyncio
import json
import tempfile
from array import array
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import structlog

from emulator.chat import prompt_of
from emulator.params import EngineParams
from emulator.server import start
from gateway.bridge.frames import (
    SOCKET,
    Asked,
    Copied,
    EnginePlace,
    FleetPlace,
    Fleets,
    Ids,
    Learned,
    Template,
    pack,
    words,
)
from gateway.bridge.link import BridgeLink
from gateway.bridge.school import School
from routing.bridge.features import Feature
from routing.bridge.fit import CHAT, PLAIN
from routing.events.chain import block_chain, packed
from routing.prompt import read
from tests.support import Engine, Peer, json_answer, until
from wire.tasks import Tasks


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


EVERYTHING = (0, 1, 2, 3)
TALK = [{"role": "system", "content": "Be brief. " * 30}, {"role": "user", "content": "hi"}]


@dataclass
class Worker:
    """A worker's line, and what came on it."""

    link: BridgeLink
    learned: list[Learned] = field(default_factory=list)
    templates: list[Template] = field(default_factory=list)
    counts: dict[tuple[str, ...], int] = field(default_factory=lambda: defaultdict(int))

    def heard(self, told: Learned | Template) -> None:
        (self.learned if isinstance(told, Learned) else self.templates).append(told)  # type: ignore[arg-type]


@dataclass
class Schooling:
    """A school that runs, and workers on it."""

    run_dir: str
    school: School
    tasks: Tasks

    async def worker(self, *urls: str, **place: Any) -> Worker:
        counts: dict[tuple[str, ...], int] = defaultdict(int)
        worker: Worker

        def heard(told: Learned | Template) -> None:
            worker.heard(told)

        link = BridgeLink(asyncio.get_running_loop(), f"{self.run_dir}/{SOCKET}", heard, counts)
        worker = Worker(link, counts=counts)
        engines = tuple(EnginePlace(at, url) for at, url in enumerate(urls))
        fleet = FleetPlace(**{"fleet": "f", "model": None, "loras": (), "engines": engines, **place})
        link.renew(Fleets((fleet,)))
        self.tasks.spawn(link.keep_connected(), name="link")
        await until(lambda: link._transport is not None)
        return worker


@asynccontextmanager
async def schooling(probe_s: float = 60.0) -> AsyncIterator[Schooling]:
    log = structlog.wrap_logger(structlog.ReturnLogger(), processors=[lambda _l, _n, event: ""])
    with tempfile.TemporaryDirectory(prefix="sl") as run_dir:
        school, stop, tasks = School(run_dir, log, probe_s), asyncio.Event(), Tasks()
        serving = asyncio.get_running_loop().create_task(school.serve(stop))
        await until((Path(run_dir) / SOCKET).exists)
        try:
            yield Schooling(run_dir, school, tasks)
        finally:
            await tasks.cancel()
            stop.set()
            await serving


def chained(path: str, body: bytes) -> tuple[bytes, bytes]:
    prompt = read(path, body, b"key")
    return words_bytes("Q", prompt.chain), words_bytes("I", prompt.ends)


def words_bytes(code: str, numbers: Sequence[int]) -> bytes:
    return array(code, numbers).tobytes()


def asked(path: str = CHAT, engine: int = 0, **fields: Any) -> Asked:
    body = json.dumps({"model": "emulated", "messages": TALK, **fields}).encode()
    return Asked("f", engine, path, body, *chained(path, body), (16, 32))


def scripted(ids_of: Callable[[str, dict[str, Any]], list[int] | None]) -> Engine:
    """An engine whose /tokenize, or whatever it is asked, answers by a function; None is a 404."""

    async def script(peer: Peer) -> None:
        ids = ids_of(peer.line.split()[1], json.loads(peer.body))
        if ids is None:
            await peer.send(json_answer(b'{"detail":"Not Found"}', "404 Not Found"))
        else:
            await peer.send(json_answer(json.dumps({"tokens": ids}).encode()))

    return Engine(script, teaches=True)


def written(messages: list[dict[str, Any]]) -> list[int]:
    return [ord(one) for said in messages for one in f"<{said['role']}>{said['content'] or said}"]


@pytest.mark.parametrize(
    "question",
    [
        asked(),
        asked(tools=[{"type": "function", "function": {"name": "f"}}]),
        asked(PLAIN, prompt="Once upon a time " * 20),
    ],
)
@on_loop
async def test_a_prompt_is_learned_from_the_engine_it_went_to(question: Asked) -> None:
    running = await start(EngineParams())
    async with schooling() as there:
        worker, other = await there.worker(running.url), await there.worker(running.url)
        await until(lambda: bool(worker.templates))
        assert worker.templates[0].features == EVERYTHING
        worker.link.tell(question)
        await until(lambda: bool(worker.learned and other.learned))
        [told] = worker.learned
        assert other.learned == [told]
        body = json.loads(question.body)
        reader = running.engine.tokenizer
        if question.path == PLAIN:
            ids = list(reader.encode(body["prompt"]))
        else:
            ids = prompt_of(reader, body["messages"], body.get("tools"))
        assert (told.chain, told.ends, told.tokens) == (question.chain, question.ends, len(ids))
        assert {size: list(words(chain, "Q")) for size, chain in told.blocks.items()} == {
            size: block_chain(ids, size) for size in (16, 32)
        }
        assert (told.front_bytes > 0) == ("tools" in body)
    await running.close()


@on_loop
async def test_salt_and_lora_name_other_blocks() -> None:
    running = await start(EngineParams(aliases=("adapter",)))
    async with schooling() as there:
        worker = await there.worker(running.url, loras=("adapter",))
        await until(lambda: bool(worker.templates))
        for question in (asked(), asked(cache_salt="s"), asked(model="adapter")):
            worker.link.tell(question)
        await until(lambda: len(worker.learned) == 3)
        assert len({told.tokens for told in worker.learned}) == 1
        assert len({told.blocks[16] for told in worker.learned}) == 3
    await running.close()


@on_loop
async def test_a_template_that_moves_the_system_text_is_not_learned() -> None:
    def moved(path: str, body: dict[str, Any]) -> list[int] | None:
        messages = body["messages"]
        return written([one for one in messages if one["role"] != "system"] + messages[:1])

    engine = scripted(moved)
    await engine.start()
    async with schooling() as there:
        worker = await there.worker(engine.url)
        await until(lambda: bool(worker.templates))
        assert worker.templates[0].features == ()
        worker.link.tell(asked())
        await until(lambda: there.school.counts["template"] == 1)
        assert not worker.learned
    await engine.stop()


@on_loop
async def test_where_no_engine_tells_ids_nothing_is_learned_and_that_is_counted() -> None:
    engine = scripted(lambda path, body: None)
    await engine.start()
    async with schooling() as there:
        worker = await there.worker(engine.url)
        await until(
            lambda: any(peer.line.startswith("POST /v1/chat/completions/render") for peer in engine.asked)
        )
        worker.link.tell(asked())
        await until(lambda: there.school.counts["unprobed"] == 1)
        assert not worker.templates and not worker.learned
    await engine.stop()


@on_loop
async def test_a_second_engine_is_probed_where_the_first_does_not_tell() -> None:
    mute, telling = scripted(lambda path, body: None), await start(EngineParams())
    await mute.start()
    async with schooling() as there:
        worker = await there.worker(mute.url, telling.url)
        await until(lambda: bool(worker.templates))
        worker.link.tell(asked(engine=0))
        worker.link.tell(asked(engine=1))
        await until(lambda: bool(worker.learned) and there.school.counts["no_ids"] == 1)
        assert len(worker.learned) == 1  # from the second alone
    await telling.close()
    await mute.stop()


@on_loop
async def test_what_the_engine_cannot_be_asked_whole_is_not_asked() -> None:
    """A prompt that reasoning_effort shapes: /tokenize would not see it."""
    running = await start(EngineParams())
    async with schooling() as there:
        worker = await there.worker(running.url)
        await until(lambda: bool(worker.templates))
        worker.link.tell(asked(reasoning_effort="low"))
        await until(lambda: there.school.counts["no_ids"] == 1)
        worker.link.tell(asked(messages=[{"role": "user", "content": [{"type": "image_url"}]}]))
        await until(lambda: there.school.counts["unfit"] == 1)
        assert not worker.learned
    await running.close()


@on_loop
async def test_what_tokenize_does_not_take_is_asked_of_render_where_that_is_offered() -> None:
    """As vLLM 0.32 answers with --enable-scale-out: an object, for completions a list of one."""

    async def script(peer: Peer) -> None:
        path, body = peer.line.split()[1], json.loads(peer.body)
        if path == "/tokenize" and "messages" in body:
            answer: Any = {"count": 1, "tokens": written(body["messages"])}
        elif path.endswith("/render"):
            answer = {"request_id": "r", "token_ids": list(range(100)), "features": None}
        else:
            await peer.send(json_answer(b'{"error":{"code":400}}', "400 Bad Request"))
            return
        await peer.send(json_answer(json.dumps(answer).encode()))

    engine = Engine(script, teaches=True)
    await engine.start()
    async with schooling() as there:
        worker = await there.worker(engine.url)
        await until(lambda: bool(worker.templates))
        asks = [
            asked(reasoning_effort="low"),
            asked("/v1/messages", max_tokens=5),
            asked("/v1/responses", input="x"),
        ]
        for count, question in enumerate(asks, 1):
            worker.link.tell(question)
            await until(lambda count=count: len(worker.learned) == count)  # type: ignore[misc]
        paths = [peer.line.split()[1] for peer in engine.asked if peer.line.split()[1].endswith("/render")]
        assert paths == ["/v1/chat/completions/render", "/v1/messages/render", "/v1/responses/render"]
        assert {told.tokens for told in worker.learned} == {100}
    await engine.stop()


@on_loop
async def test_a_template_that_writes_something_else_is_probed_anew() -> None:
    day = ["Monday"]

    def dated(path: str, body: dict[str, Any]) -> list[int] | None:
        return [ord(one) for one in day[0]] + written(body["messages"])

    engine = scripted(dated)
    await engine.start()
    async with schooling(probe_s=0.05) as there:
        worker = await there.worker(engine.url)
        await until(lambda: bool(worker.templates))
        worker.link.tell(asked())
        await until(lambda: len(worker.learned) == 1)
        day[0] = "Tuesday"
        await until(lambda: len(worker.templates) == 2)
        assert worker.templates[0].print != worker.templates[1].print
        late = await there.worker(engine.url)
        await until(lambda: bool(late.templates))
        assert not late.learned  # it was of the other day
    await engine.stop()


@on_loop
async def test_a_worker_that_comes_late_is_told_what_was_learned() -> None:
    running = await start(EngineParams())
    async with schooling() as there:
        worker = await there.worker(running.url)
        await until(lambda: bool(worker.templates))
        worker.link.tell(asked())
        await until(lambda: bool(worker.learned))
        late = await there.worker(running.url)
        await until(lambda: late.learned == worker.learned)
        assert late.templates == worker.templates
    await running.close()


@on_loop
async def test_a_worker_that_learns_of_a_fleet_again_is_told_its_template_again() -> None:
    running = await start(EngineParams())
    async with schooling() as there:
        worker = await there.worker(running.url)
        await until(lambda: bool(worker.templates))
        told = worker.link._fleets
        worker.link.renew(Fleets(()))
        worker.link.renew(told)
        await until(lambda: len(worker.templates) == 2)
        assert worker.templates[0] == worker.templates[1]
    await running.close()


@on_loop
async def test_a_copys_ids_teach_without_asking_any_engine() -> None:
    running = await start(EngineParams())
    async with schooling() as there:
        worker = await there.worker(running.url)
        await until(lambda: bool(worker.templates))
        body = json.dumps({"model": "emulated", "messages": TALK}).encode()
        worker.link.tell(Copied("f", "id-1", *chained(CHAT, body), (16,)))
        worker.link.tell(Ids("another", CHAT, body, packed([1, 2])))
        worker.link.tell(Ids("id-1", CHAT, body, packed(range(100))))
        await until(lambda: bool(worker.learned))
        [told] = worker.learned
        assert told.tokens == 100 and list(words(told.blocks[16], "Q")) == block_chain(range(100), 16)
    await running.close()


@on_loop
async def test_ids_that_production_was_told_teach_as_a_copys_do_and_what_are_none_teach_nothing() -> None:
    running = await start(EngineParams())
    async with schooling() as there:
        worker = await there.worker(running.url)
        await until(lambda: bool(worker.templates))
        body = json.dumps({"model": "emulated", "messages": TALK}).encode()
        for id, text in (("a", b"[1,"), ("b", b'["x"]'), ("c", json.dumps(list(range(100))).encode())):
            worker.link.tell(Copied("f", id, *chained(CHAT, body), (16,)))
            worker.link.tell(Ids(id, CHAT, body, text=text))
        await until(lambda: bool(worker.learned))
        [told] = worker.learned
        assert told.tokens == 100 and list(words(told.blocks[16], "Q")) == block_chain(range(100), 16)
        assert there.school.counts["no_ids"] == 2
    await running.close()


@on_loop
async def test_who_sends_no_frames_is_shown_out_and_the_others_stay() -> None:
    running = await start(EngineParams())
    async with schooling() as there:
        worker = await there.worker(running.url)
        writer = (await asyncio.open_unix_connection(f"{there.run_dir}/{SOCKET}"))[1]
        writer.write(b"\xc1 no frame at all")
        await until(lambda: there.school.counts["malformed"] == 1)
        writer.close()
        writer_two = (await asyncio.open_unix_connection(f"{there.run_dir}/{SOCKET}"))[1]
        writer_two.write(pack(Learned("f", b"", b"", 1, 0, {})))  # workers are taught, they do not teach
        await until(lambda: there.school.counts["malformed"] == 2)
        writer_two.close()
        await until(lambda: bool(worker.templates))
        assert Feature.NONE in worker.templates[0].features
    await running.close()


@on_loop
async def test_while_nobody_learns_what_is_told_is_dropped_and_counted() -> None:
    counts: dict[tuple[str, ...], int] = defaultdict(int)
    link = BridgeLink(asyncio.get_running_loop(), "/nowhere/at/all", lambda told: None, counts)
    assert not link.tell(asked())
    assert counts == {("bridge_dropped", "link_down"): 1}
