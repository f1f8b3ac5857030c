"""The engine dies half-way, and the client takes half an answer for a whole one: status 200, no error."""

import asyncio
import gzip
import json
from collections.abc import Callable

import pytest

from gateway.spec import LimitsSpec
from tests.failures.support import NOT_STREAMED, ask_each, last_counts, number, reset, told
from tests.support import (
    CHAT,
    FINISH,
    LAST,
    ROLE,
    SSE_HEAD,
    TOKEN,
    Answered,
    Engine,
    Peer,
    chunk,
    event,
    json_answer,
    post,
    running,
)
from tests.support_shared import run

EVENTS = [f"data: {one}\n\n".encode() for one in (ROLE, TOKEN.replace("tok", "é🙂"), TOKEN, FINISH, "[DONE]")]
BODY = b"".join(EVENTS)
HELD = LimitsSpec(hold_head_ms=20_000, drain_s=5.0)  # a head is never passed on for its age
ENDINGS: dict[str, Callable[[Peer], None]] = {"reset": reset, "closed": Peer.close}
ending_each = pytest.mark.parametrize("ending", ENDINGS)


def payload_of(framed: bytes) -> bytes:
    """What chunks that were cut short hold."""
    out = b""
    while framed:
        size, line_end, framed = framed.partition(b"\r\n")
        if not line_end:
            break
        out, framed = out + framed[: int(size, 16)], framed[int(size, 16) + 2 :]
    return out


def refused(got: Answered) -> bool:
    """Refused in words before anything of the answer was given."""
    error = json.loads(got.body)["error"]
    return got.status == 502 and got.is_whole and error["type"].startswith("upstream_")


def relayed_before_the_error(got: Answered) -> bytes:
    """What came before the event that says the cut, which must be one that clients can read."""
    assert got.status == 200 and not got.is_whole
    assert got.text.endswith(b"\n\n"), "an event without its blank line is none"
    relayed, _, said = got.text[:-2].rpartition(b"\n\ndata: ")
    error = json.loads(said)["error"]
    assert (error["type"], error["code"]) == ("upstream_cut", 502) and error["message"]
    assert b"[DONE]" not in said
    return relayed


@ending_each
@pytest.mark.parametrize("start", [b"", b": hello\n\n"], ids=["", "after a comment"])
def test_h07_cut_looks_complete_at_no_byte_of_an_event_stream(ending: str, start: bytes) -> None:
    """The half-sent event is ended, one event says the cut, and the last chunk never comes."""
    head = SSE_HEAD + (chunk(start) if start else b"")
    whole = head + b"".join(map(chunk, EVENTS)) + LAST
    first_event = len(head + chunk(EVENTS[0])) - 2  # where its data is complete

    async def script(peer: Peer) -> None:
        await peer.send(whole[: number(peer)])
        await asyncio.sleep(0.005)
        ENDINGS[ending](peer)

    async def test() -> None:
        async with running(Engine(script), limits=HELD) as gateway, told(gateway.run_dir) as heard:
            for cut, got in enumerate(await ask_each(gateway.port, len(whole))):
                if cut < len(SSE_HEAD) or (not start and cut < first_event):
                    assert refused(got), cut
                elif cut < first_event:
                    if got.status != 502:  # the comment came whole
                        assert relayed_before_the_error(got) in (start, start[:-2]), cut
                    else:
                        assert refused(got) and cut < len(head) - 2, cut
                else:
                    assert relayed_before_the_error(got) == payload_of(whole[len(SSE_HEAD) : cut]), cut
            assert (await last_counts(gateway, heard)).get("cut") == len(whole)
            assert "complete" not in heard.counts and gateway.loads.totals(0) == (0, 0, 0, 0)

    run(test())


@pytest.mark.parametrize("nonsense", [b"ZZ\r\n", b"-1\r\n", b"5;\n", b"\r\n", b"5\r\nhelloX\r\n"])
def test_h07_cut_looks_complete_not_where_the_engines_framing_breaks(nonsense: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD, *map(chunk, EVENTS[: 1 + number(peer)]))
        await asyncio.sleep(0.005)
        await peer.send(nonsense, LAST)

    async def test() -> None:
        async with running(Engine(script), limits=HELD) as gateway:
            for n, got in enumerate(await ask_each(gateway.port, len(EVENTS))):
                assert relayed_before_the_error(got).startswith(b"".join(EVENTS[: 1 + n])), nonsense
            assert gateway.inflight() == 0

    run(test())


JSON = json.dumps({"choices": [{"message": {"content": "é🙂"}, "finish_reason": "stop"}]}).encode()
PACKED = gzip.compress(BODY)
TYPE = b"HTTP/1.1 200 OK\r\nContent-Type: "
OTHERS = {
    "json with a length": (json_answer(JSON), JSON),
    "json in chunks": (
        TYPE
        + b"application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        + (chunk(JSON[:20]) + chunk(JSON[20:]) + LAST),
        JSON,
    ),
    "events, compressed": (
        SSE_HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n" + chunk(PACKED[:50]) + chunk(PACKED[50:]) + LAST,
        PACKED,
    ),
    "events with a length": (
        TYPE + b"text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY,
        BODY,
    ),
}


@ending_each
@pytest.mark.parametrize("kind", OTHERS)
def test_h07_cut_looks_complete_at_no_byte_of_any_other_answer(ending: str, kind: str) -> None:
    """Nothing is added to what is no plain event stream in chunks; it stays short for the client to see."""
    whole, body = OTHERS[kind]

    async def script(peer: Peer) -> None:
        await peer.send(whole[: number(peer)])
        await asyncio.sleep(0.005)
        ENDINGS[ending](peer)

    async def test() -> None:
        async with running(Engine(script), limits=HELD) as gateway, told(gateway.run_dir) as heard:
            for cut, got in enumerate(await ask_each(gateway.port, len(whole), NOT_STREAMED)):
                if cut < whole.index(b"\r\n\r\n") + 4:
                    assert refused(got), cut
                elif got.status == 502:  # before its first event
                    assert kind == "events with a length" and refused(got), cut
                else:
                    assert got.status == 200 and not got.is_whole, cut
                    assert body.startswith(got.text) and b"upstream_cut" not in got.raw, cut
            assert (await last_counts(gateway, heard)).get("cut") == len(whole)

    run(test())


async def ended_by_a_reset(port: int, request: bytes) -> tuple[bytes, bool]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    raw = b""
    try:
        async with asyncio.timeout(30):
            while piece := await reader.read(1 << 16):
                raw += piece
    except ConnectionResetError:
        return raw, True
    finally:
        writer.close()
    return raw, False


@ending_each
def test_h07_cut_looks_complete_to_no_client_that_knows_neither_length_nor_chunks(ending: str) -> None:
    """An HTTP/1.0 client takes a closed connection for the end: so it is reset."""
    whole = SSE_HEAD + b"".join(map(chunk, EVENTS)) + LAST
    old = post(CHAT).replace(b"HTTP/1.1", b"HTTP/1.0")

    async def script(peer: Peer) -> None:
        await peer.send(whole[: number(peer)])
        await asyncio.sleep(0.005)
        ENDINGS[ending](peer)

    async def test() -> None:
        cuts = range(len(SSE_HEAD + chunk(EVENTS[0])), len(whole), 7)
        async with running(Engine(script), limits=HELD) as gateway:
            for cut in cuts:
                request = old.replace(b"completions ", b"completions?%d " % cut)
                raw, was_reset = await ended_by_a_reset(gateway.port, request)
                assert was_reset, cut
                assert not raw or raw.startswith(b"HTTP/1.1 200")

    run(test())


@ending_each
def test_h07_cut_looks_complete_not_for_an_answer_that_only_the_connections_end_would_end(
    ending: str,
) -> None:
    """Where the engine's framing is its connection's end, a reset is told from that end."""

    async def script(peer: Peer) -> None:
        await peer.send(TYPE + b"text/plain\r\n\r\nhalf")
        await asyncio.sleep(0.005)
        ENDINGS[ending](peer)

    async def test() -> None:
        async with running(Engine(script), limits=HELD) as gateway:
            for got in await ask_each(gateway.port, 5, NOT_STREAMED):
                assert got.text == b"half" and got.is_whole == (ending == "closed")

    run(test())


def test_h07_cut_looks_complete_not_for_the_next_request_of_the_client() -> None:
    """The client's connection closes with the cut answer: nothing can be taken for its continuation."""

    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD, event(TOKEN))
        await asyncio.sleep(0.005)
        reset(peer)

    async def test() -> None:
        engine = Engine(script)
        async with running(engine) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(post(close=False) + post(close=False))
            raw = await asyncio.wait_for(reader.read(-1), 30)
            writer.close()
            assert raw.count(b"HTTP/1.1 ") == 1 and len(engine.asked) == 1

    run(test())
