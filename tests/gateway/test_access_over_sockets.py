"""Through a whole gateway: a line for a request with its instants in order, and tokens counted once."""

import asyncio
import json
from pathlib import Path

import pytest

from gateway.spec import LimitsSpec
from tests.failures.processes import Whole, engine_that, serving
from tests.gateway.test_usage import FIXTURES, SILENT, TOLD
from tests.support import (
    CHAT,
    FINISH,
    LAST,
    SSE_HEAD,
    TOKEN,
    Engine,
    Peer,
    Script,
    answers,
    ask,
    chunk,
    event,
    json_answer,
    post,
    running,
    streams,
    until,
)
from tests.support_shared import access_lines, hangs, resets, run

USAGE = '{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}'
TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens")
PATH = "/v1/chat/completions"


def named(id: str, body: bytes = CHAT) -> bytes:
    return post(body, PATH + "?key=q", f"X-Request-Id: {id}")


def piecewise(name: str) -> Script:
    """An engine that answers with a recorded body: a read for each event, or a document."""
    data = (FIXTURES / name).read_bytes()
    if not name.endswith(".sse"):
        return answers(json_answer(data))
    return answers(SSE_HEAD, *(chunk(block + b"\n\n") for block in data.split(b"\n\n") if block), LAST)


def test_an_answers_tokens_are_told_whatever_engine_and_api(capfd: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        engine = Engine(streams())
        async with running(engine, access_share=1.0) as gateway:
            for at, name in enumerate((*TOLD, *SILENT)):
                engine.script = piecewise(name)
                assert (await ask(gateway.port, named(f"r{at}"))).status == 200

    run(test())
    told = access_lines(capfd)
    for at, name in enumerate((*TOLD, *SILENT)):
        got = tuple(told[f"r{at}"].get(kind) for kind in TOKENS)
        assert got == TOLD.get(name, (None, None, None)), name


def test_an_answer_too_long_to_keep_tells_its_tokens_at_either_end(capfd: pytest.CaptureFixture[str]) -> None:
    counts, data = (
        b'"usage":{"prompt_tokens":3,"completion_tokens":4}',
        b'"data":[' + b"0.5," * 100_000 + b"0]",
    )
    long = [event(TOKEN)] * 3000
    start = b'{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}'
    end = '{"type":"message_delta","delta":{"stop_reason":"end"},"usage":{"output_tokens":8}}'
    cases = {
        "last": answers(json_answer(b"{" + data + b"," + counts + b"}")),
        "first": answers(json_answer(b"{" + counts + b"," + data + b"}")),
        "stream": answers(SSE_HEAD, *long, event(FINISH), event(USAGE), LAST),
        "messages": answers(SSE_HEAD, chunk(b"data: " + start + b"\n\n"), *long, event(end), LAST),
    }

    async def test() -> None:
        engine = Engine(streams())
        async with running(engine, access_share=1.0) as gateway:
            for name, script in cases.items():
                engine.script = script
                assert (await ask(gateway.port, named(name))).is_whole

    run(test())
    told = {
        id: (line["prompt_tokens"], line["completion_tokens"]) for id, line in access_lines(capfd).items()
    }
    assert told == {"last": (3, 4), "first": (3, 4), "stream": (5, 7), "messages": (9, 8)}


def test_every_instant_is_there_and_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD)
            for payload in (TOKEN, TOKEN, FINISH, USAGE):
                await asyncio.sleep(0.02)
                await peer.send(event(payload))
            await peer.send(LAST)

        async with running(Engine(script), access_share=1.0) as gateway:
            await ask(gateway.port, named("a"))
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            sent = named("b")
            writer.write(sent[:-5])
            await writer.drain()
            await asyncio.sleep(0.05)  # the body becomes whole later than its head
            writer.write(sent[-5:])
            await reader.read()
            writer.close()

    run(test())
    for line in access_lines(capfd).values():
        at = [line[f"{name}_ms"] for name in ("body", "chosen", "sent", "head", "token", "last", "end")]
        assert at == sorted(at) and at[0] >= 0 and at[4] < at[5], line
        assert (line["outcome"], line["status"], line["level"]) == ("complete", 200, "info")
        assert (line["prompt_tokens"], line["completion_tokens"]) == (5, 7)
        assert line["why"] and (line["inflight"], line["pending_bytes"]) == (0, 0)
        assert line["bytes_in"] == len(CHAT) and line["bytes_out"] > 100 and "retries" not in line
        assert line["path"] == PATH and "key=q" not in json.dumps(line)


async def _half(peer: Peer) -> None:
    await peer.send(SSE_HEAD, event(TOKEN))
    peer.reset()


FAILURES: dict[str, tuple[Script, bytes, str, int]] = {
    "reset": (resets, CHAT, "cut", 502),
    "half": (_half, CHAT, "cut", 200),
    "silent": (hangs, CHAT, "timeout", 504),
    "500": (answers(json_answer(b"{}", "500 Oops")), CHAT, "engine_error", 500),
    "400": (answers(json_answer(b"{}", "400 No")), CHAT, "client_error", 400),
    "truncated": (streams(TOKEN, done=False), CHAT, "truncated", 200),
    "no http": (answers(b"no HTTP\r\n\r\n"), CHAT, "malformed", 502),
    "event": (streams('{"error":{"message":"no"}}'), CHAT, "error_event", 200),
    "unreadable": (streams(TOKEN), b"{no json", "client_error", 400),
    "too large": (streams(TOKEN), b"x" * 40_000, "too_large", 413),
}


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_one_line_tells_of_each_failure_and_what_the_client_was_told(
    share: float, capfd: pytest.CaptureFixture[str]
) -> None:
    async def test() -> None:
        engine = Engine(streams(FINISH))
        limits = LimitsSpec(body_bytes=30_000, first_token_timeout_s=0.3, retries=0, drain_s=5)
        async with running(engine, limits=limits, access_share=share) as gateway:
            for at, (script, body, _, status) in enumerate(FAILURES.values()):
                engine.script = script
                assert (await ask(gateway.port, named(f"r{at}", body))).status == status
            await engine.stop()
            assert (await ask(gateway.port, named("refused"))).status in (502, 503)

    run(test())
    told = access_lines(capfd)
    wanted = {f"r{at}": (what, status) for at, (_, _, what, status) in enumerate(FAILURES.values())}
    if not share:  # clients' own faults are no failures
        wanted = {id: one for id, one in wanted.items() if one[0] not in ("client_error", "too_large")}
    refused = told.pop("refused")
    assert {id: (line["outcome"], line["status"]) for id, line in told.items()} == wanted
    assert refused["outcome"] == "refused" and "sent_ms" not in refused and "head_ms" not in refused
    for line in told.values():
        at = [
            line[f"{name}_ms"]
            for name in ("chosen", "sent", "head", "token", "last", "end")
            if f"{name}_ms" in line
        ]
        assert at == sorted(at), line


def test_a_client_that_leaves_has_a_line_where_all_are_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        engine = Engine(hangs)
        async with running(engine, access_share=1.0) as gateway:
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(named("a"))
            await until(lambda: len(engine.asked) == 1)
            writer.close()
            await until(lambda: gateway.inflight() == 0)

    run(test())
    assert access_lines(capfd)["a"]["outcome"] == "client_gone"


def test_of_good_requests_a_share_is_written_and_at_none_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    async def test(share: float) -> None:
        async with running(Engine(streams(TOKEN, FINISH)), access_share=share) as gateway:
            for n in range(200):
                assert (await ask(gateway.port, named(f"r{n}"))).status == 200

    run(test(0.2))
    assert 10 <= len(access_lines(capfd)) <= 80
    run(test(0.0))
    assert not access_lines(capfd)


def test_failures_without_end_do_not_fill_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}", "500 Oops")))
        async with running(engine) as gateway:
            for n in range(300):
                await ask(gateway.port, named(f"r{n}"))

    run(test())
    assert 50 <= len(access_lines(capfd)) < 200


def test_tokens_are_counted_for_the_fleet(tmp_path: Path) -> None:
    """A counter each, over streams and whole answers; what no engine told, or a failure, adds nothing."""

    async def test() -> None:
        async with engine_that(streams()) as engine, serving(tmp_path, "--engine", engine.url) as whole:
            asked = ("vllm/chat.body", "llamacpp/chat_stream_usage.sse", "vllm/chat_stream.sse")
            for name in asked:
                engine.script = piecewise(name)
                await ask(whole.port, named("x"))
            engine.script = answers(json_answer((FIXTURES / asked[0]).read_bytes(), "500 Oops"))
            await ask(whole.port, named("x"))
            async with asyncio.timeout(20):
                while not (found := await tokens(whole)) or found["prompt"] < 21 + 37:
                    await asyncio.sleep(0.1)
            assert found == {"prompt": 21 + 37, "cached": 36, "completion": 6 + 8}

    run(test())


async def tokens(whole: Whole) -> dict[str, float]:
    found = {}
    for line in await whole.metrics():
        for kind in ("prompt", "cached", "completion"):
            if line.startswith(f"shadowlane_{kind}_tokens_total{{"):
                found[kind] = float(line.rsplit(" ", 1)[1])
    return found


def test_a_line_tells_what_every_engine_would_have_cost(capfd: pytest.CaptureFixture[str]) -> None:
    engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]

    async def test() -> None:
        async with running(*engines, access_share=1.0, policy="prefix_cost") as gateway:
            for n in range(5):
                assert (await ask(gateway.port, named(f"r{n}"))).is_whole

    run(test())
    told = access_lines(capfd)
    assert set(told) == {f"r{n}" for n in range(5)}
    for line in told.values():
        assert set(line["costs"]) == {engine.url for engine in engines}
        assert line["costs"][line["engine"]] == pytest.approx(line["cost_s"], abs=1e-6)
        assert line["cost_s"] <= min(line["costs"].values()) + 0.002
    assert told["r0"]["propensity"] == pytest.approx(1 / 3), "nothing spoke for one of them"


def test_a_share_of_requests_is_explained_and_those_are_the_ones_that_are_written(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def test() -> None:
        async with running(Engine(streams(TOKEN, FINISH)), access_share=0.5, policy="prefix_cost") as gateway:
            for n in range(60):
                assert (await ask(gateway.port, named(f"r{n}"))).is_whole

    run(test())
    told = access_lines(capfd)
    assert 10 < len(told) < 50
    assert all("costs" in line for line in told.values())
