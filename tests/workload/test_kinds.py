"""What has no text goes to its own path, in its own form; what cannot be made up is counted."""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from emulator.params import EngineParams
from emulator.server import start
from gateway.recording.replayed import replayable
from mirror.spec import ArmSpec, MirrorExperiment, ReplaySpec, SlotSpec
from tests.support import Engine, Peer, json_answer
from workload.asks import CHAT, Ask, asks
from workload.command import main
from workload.kinds import kind_of, sendable
from workload.replay import HttpSender, Settings, open_loop
from workload.replaying import session
from workload.reply import Reply
from workload.results import Slo, results, table
from workload.row import Row, Sampling, to_line

EMBEDDINGS, RERANK = "/v1/embeddings", "/v1/rerank"
SPOKEN = (CHAT, "/v1/completions", "/v1/messages", "/v1/responses")
FAST = EngineParams(model="m", base_ms=0.1, ms_per_prefill_token=0.0001, ms_per_seq=0.001, block_size=16)
SAMPLING = Sampling(temperature=0.0, top_p=0.9, n=1, presence_penalty=0.1)


def row(path: str, number: int = 0, **more: Any) -> Row:
    """A request without text, 160 tokens long."""
    values: dict[str, Any] = {
        "input_length": 160,
        "output_length": 7,
        "hash_ids": [1, 2, 100 + number],
        "id": f"{path}-{number}",
        "session": f"s{path}-{number}",
        "model": "m",
        "path": path,
        "status": 200,
        "sampling": SAMPLING,
    }
    return Row(timestamp=10.0 * number, **{**values, **more})


async def sent_to(url: str, rows: Sequence[Row], **settings: Any) -> list[tuple[Ask, Reply]]:
    """What comes of these, once the server was asked for the tokens of words on each of their paths."""
    listed = list(asks(rows, 64))
    async with session() as http:
        sender = HttpSender(http, Settings(url, model="m", **settings), clock=time.monotonic)
        for path in dict.fromkeys(ask.path for ask in listed if ask.body is None):
            await sender.learn(path, "m")
        return (await open_loop(listed, sender.send, clock=time.monotonic)).results


def test_what_answers_in_tokens_is_sent_to_its_own_path_at_its_length_and_read_in_its_own_shape() -> None:
    async def scene() -> list[tuple[Ask, Reply]]:
        engine = await start(FAST, "127.0.0.1", 0)
        try:
            return await sent_to(engine.url, [row(path) for path in SPOKEN])
        finally:
            await engine.close()

    found = asyncio.run(scene())
    assert sorted(ask.path for ask, _ in found) == sorted(SPOKEN)
    for ask, one in found:
        assert (one.failure, one.in_tokens) == (None, True), ask.path
        assert one.tokens is not None and 1 <= one.tokens <= 7 and one.text, ask.path
        assert one.prompt_tokens is not None and abs(one.prompt_tokens - 160) <= 8, (
            ask.path,
            one.prompt_tokens,
        )
        assert one.ttft_s is not None and one.e2e_s is not None and 0 < one.ttft_s <= one.e2e_s, ask.path


class Everything:
    """A server that embeds and ranks, and keeps what it was asked."""

    def __init__(self, status: str = "200 OK") -> None:
        self.status = status
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def script(self, peer: Peer) -> None:
        path, body = peer.line.split(" ")[1], json.loads(peer.body)
        self.asked.append((path, body))
        if path == CHAT:
            await peer.send(json_answer(b'{"error": {}}', "404 Not Found"))
            return
        tokens = len(str(body.get("input", "")).split())
        answer = {"data": [{"embedding": [0.1, 0.2]}], "usage": {"prompt_tokens": tokens}}
        await peer.send(json_answer(json.dumps(answer).encode(), self.status))


def answered(rows: Sequence[Row], status: str = "200 OK") -> tuple[list[tuple[Ask, Reply]], Everything]:
    async def scene() -> tuple[list[tuple[Ask, Reply]], Everything]:
        server = Everything(status)
        engine = Engine(server.script)
        await engine.start()
        try:
            return await sent_to(engine.url, rows), server
        finally:
            await engine.stop()

    return asyncio.run(scene())


def test_an_embedding_is_asked_for_as_one_and_bounded_by_its_end_alone() -> None:
    found, server = answered([row(EMBEDDINGS)])
    path, body = server.asked[-1]
    assert path == EMBEDDINGS and set(body) == {"model", "input"} and len(body["input"].split()) == 160
    ((_, one),) = found
    assert (one.failure, one.in_tokens, one.prompt_tokens, one.ttft_s) == (None, False, 160, None)
    assert Slo(ttft_ms=0.001, tpot_ms=0.001).met(one) and not Slo(e2e_ms=0.000001).met(one)
    figures = results(found, Slo())
    assert (figures.ttft.missing, figures.e2e.n) == (0, 1)


def test_what_was_recorded_with_its_text_goes_as_it_was_wherever_no_prompt_could_be_made_up() -> None:
    asked = {"query": "which?", "documents": ["one", "two"], "top_n": 1, "model": "m"}
    found, server = answered([row(RERANK, request=asked)])
    assert server.asked == [(RERANK, asked)] and [one.failure for _, one in found] == [None]
    ((_, one),) = found
    assert one.e2e_s is not None and not one.in_tokens


def test_a_refusal_is_a_failure_on_every_path() -> None:
    body = {"model": "m", "input": "x", "messages": [{"role": "user", "content": "x"}], "prompt": "x"}
    paths = (*SPOKEN[1:], EMBEDDINGS, RERANK)
    found, _ = answered([row(path, request=body) for path in paths], "500 Internal Server Error")
    assert {ask.path: one.failure for ask, one in found} == dict.fromkeys(paths, "status 500")


def test_an_answer_cut_short_is_cut_in_every_shape() -> None:
    opening = {
        CHAT: {"choices": [{"delta": {"content": "so"}}]},
        "/v1/completions": {"choices": [{"text": "so"}]},
        "/v1/messages": {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "so"},
        },
        "/v1/responses": {"type": "response.output_text.delta", "delta": "so"},
    }

    async def script(peer: Peer) -> None:
        path = peer.line.split(" ")[1]
        event = b"data: " + json.dumps(opening[path]).encode() + b"\n\n"
        await peer.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n", event
        )
        peer.writer.close()

    async def scene() -> list[tuple[Ask, Reply]]:
        engine = Engine(script)
        await engine.start()
        try:
            body = {"input": "x", "messages": [{"role": "user", "content": "x"}], "prompt": "x"}
            return await sent_to(engine.url, [row(path, request=body) for path in SPOKEN])
        finally:
            await engine.stop()

    found = asyncio.run(scene())
    assert {ask.path: (one.failure, one.text) for ask, one in found} == dict.fromkeys(SPOKEN, ("cut", "so"))


def test_what_cannot_be_made_up_is_left_out_and_counted_by_its_path() -> None:
    rows = [
        row(CHAT),
        row(RERANK),
        row(RERANK, 1),
        row("/v1/audio/speech"),
        row(RERANK, 2, request={"query": "x"}),
    ]
    kept, left_out = sendable(rows)
    assert left_out == {RERANK: 2, "/v1/audio/speech": 1}
    assert [one.id for one in kept] == [f"{CHAT}-0", f"{RERANK}-2"]
    assert "2 of /v1/rerank" in table(results([], Slo(), left_out={"no_text": left_out}), Slo())
    nameless = Row(timestamp=0.0, input_length=9, output_length=1)  # a trace that names no paths is of chats
    assert sendable([nameless]) == ([nameless], {})


def test_the_command_sends_each_kind_and_says_what_it_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, figures = tmp_path / "rows.jsonl", tmp_path / "figures.json"
    trace.write_bytes(
        b"".join(map(to_line, [row(RERANK), row(CHAT), *(row(EMBEDDINGS, n) for n in range(3))]))
    )

    async def scene() -> tuple[int | None, bytes, Everything]:
        server = Everything()
        engine = Engine(server.script)
        await engine.start()
        try:
            argv = [sys.executable, "-m", "gateway.cli", "replay", str(trace), "--to", engine.url]
            replay = await asyncio.create_subprocess_exec(*argv, "--json", str(figures), stdout=-1)
            async with asyncio.timeout(60):
                printed, _ = await replay.communicate()
            return replay.returncode, printed, server
        finally:
            await engine.stop()

    status, printed, server = asyncio.run(scene())
    assert status == 0 and Counter(path for path, _ in server.asked) == {CHAT: 1, EMBEDDINGS: 2 + 3}
    assert b"left out      1 of /v1/rerank: no text" in printed
    assert b"left out      1 of /v1/chat/completions: the server has no such path" in printed
    assert json.loads(figures.read_text())["left_out"] == {
        "no_text": {RERANK: 1},
        "not_served": {CHAT: 1},
    }
    trace.write_bytes(to_line(row(RERANK)))
    assert main(["replay", str(trace), "--to", "http://127.0.0.1:9"]) == 2
    assert "no text was recorded of requests to /v1/rerank" in capsys.readouterr().err


def test_an_experiment_that_replays_makes_each_kind_up_for_its_own_path_too(tmp_path: Path) -> None:
    trace = tmp_path / "rows.jsonl"
    trace.write_bytes(b"".join(to_line(row(path, n)) for n, path in enumerate((*SPOKEN, EMBEDDINGS, RERANK))))
    arms = ArmSpec("control", "http://127.0.0.1:9"), ArmSpec("c1", "http://127.0.0.1:9")
    told = MirrorExperiment(
        "e", "m", arms, models=("m",), slots=SlotSpec(9.0), replay=ReplaySpec((str(trace),), names=("m",))
    )
    recording = replayable(told)
    assert recording.status()["left_out"] == {"not_copyable": 1}
    for due in recording.piece(0):
        body, kind = json.loads(due.copy.body), kind_of(due.copy.path)
        assert kind is not None and body[kind.prompt] and body["model"] == "m"
        assert due.copy.stream is (kind.most is not None)
    assert {due.copy.path for due in recording.piece(0)} == {*SPOKEN, EMBEDDINGS}
