"""Something between engine and client gathers small events: nothing, nothing, then everything at once."""

import asyncio
import gzip
import zlib

import pytest

from gateway.spec import LimitsSpec
from tests.failures.support import NOT_STREAMED
from tests.support import (
    CHAT,
    FINISH,
    LAST,
    SSE_HEAD,
    TOKEN,
    Engine,
    Peer,
    ask,
    chunk,
    event,
    parse,
    post,
    running,
    streams,
)
from tests.support_shared import run

STREAM = b"Content-Type: text/event-stream\r\n"
HEADS = {
    "an event stream": STREAM,
    "an event stream, compressed": STREAM + b"Content-Encoding: gzip\r\n",
    "an event stream with a charset": b"content-type: TEXT/event-stream; charset=utf-8\r\n",
    "json": b"Content-Type: application/json\r\n",
    "lines of json": b"Content-Type: application/x-ndjson\r\n",
    "sound": b"Content-Type: audio/mpeg\r\n",
    "no type": b"",
}
FIRST = b"data: " + TOKEN.encode() + b"\n\n"
PIECES = [
    FIRST,
    b"d",
    b"ata: {",
    b"}\n\n",
    b": ping\n\n",
    b"x" * 4095,
    b"y" * 4096,
    b"z" * 70000,
    FIRST,
    b"\n",
]


async def lockstep(head: bytes, pieces: list[bytes], framing: str, request: bytes) -> bytes:
    """Each piece is sent only when the client has the one before it; what the client got in the end."""
    turns = [asyncio.Event() for _ in pieces]

    async def script(peer: Peer) -> None:
        stated = {
            "chunks": b"Transfer-Encoding: chunked\r\n",
            "a length": b"Content-Length: %d\r\n" % sum(map(len, pieces)),
            "the connection's end": b"",
        }[framing]
        await peer.send(b"HTTP/1.1 200 OK\r\n" + head + stated + b"\r\n")
        for piece, turn in zip(pieces, turns, strict=True):
            await turn.wait()
            await peer.send(chunk(piece) if framing == "chunks" else piece)
        await peer.send(LAST if framing == "chunks" else b"")
        if framing == "the connection's end":
            peer.close()

    async with running(Engine(script)) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request)
        raw, expected = b"", b""
        async with asyncio.timeout(30):
            for piece, turn in zip(pieces, turns, strict=True):
                turn.set()
                expected += piece
                while not raw or parse(raw).text != expected:
                    more = await reader.read(1 << 17)
                    assert more, "ended early"
                    raw += more
            raw += await reader.read(-1)
        writer.close()
        return parse(raw).text


@pytest.mark.parametrize("framing", ["chunks", "a length", "the connection's end"])
@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_h03_held_back_is_no_read_of_the_engine_however_small(kind: str, framing: str, version: str) -> None:
    """The engine goes on only when the client has what came before: were that held, all would stop."""

    async def test() -> None:
        request = post().replace(b"HTTP/1.1", b"HTTP/" + version.encode())
        assert await lockstep(HEADS[kind], PIECES, framing, request) == b"".join(PIECES)

    run(test())


def test_h03_held_back_is_no_part_of_a_compressed_stream() -> None:
    """What the engine flushed can be unpacked at once: nothing is gathered, and nothing compressed anew."""

    async def test() -> None:
        packer = zlib.compressobj(wbits=31)
        pieces = [packer.compress(FIRST) + packer.flush(zlib.Z_SYNC_FLUSH) for _ in range(20)]
        pieces.append(packer.flush())
        got = await lockstep(HEADS["an event stream, compressed"], pieces, "chunks", post())
        assert gzip.decompress(got) == FIRST * 20

    run(test())


@pytest.mark.parametrize("begins", [b": waiting\n\n", b":\r\n\r\n", FIRST, b": a\n\n: b\n\n"])
def test_h03_held_back_is_no_head_beyond_the_first_comment_or_event(begins: bytes) -> None:
    """With the limit at an hour: the head goes on with what came, not when a timer says so."""

    async def test() -> None:
        asked = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, chunk(begins))
            await asked.wait()
            await peer.send(event(FINISH), LAST)

        async with running(Engine(script), limits=LimitsSpec(hold_head_ms=3_600_000)) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(post())
            async with asyncio.timeout(30):
                assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
                assert begins in await reader.readuntil(begins)
            asked.set()
            assert (await reader.read()).endswith(LAST)
            writer.close()

    run(test())


@pytest.mark.parametrize("sent", [b"", chunk(b"data: half an eve"), chunk(b": half a com")])
def test_h03_held_back_is_no_head_without_an_event_for_more_than_a_moment(sent: bytes) -> None:
    """After 250 ms the head goes on by itself."""

    async def test() -> None:
        go_on = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, sent)
            await go_on.wait()
            await peer.send(chunk(b"nt\n\n"), event(TOKEN), event(FINISH), LAST)

        async with running(Engine(script)) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(post())
            async with asyncio.timeout(30):
                assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
            go_on.set()
            assert (await reader.read()).endswith(LAST)
            writer.close()

    run(test())


@pytest.mark.parametrize("request_body", [CHAT, NOT_STREAMED])
def test_h03_held_back_further_proxies_are_told_not_to_buffer_events(request_body: bytes) -> None:
    """`X-Accel-Buffering: no` and `Cache-Control: no-cache` go with every event stream."""

    async def test() -> None:
        async with running(Engine(streams(TOKEN, FINISH))) as gateway:
            got = await ask(gateway.port, post(request_body))
        assert got.header("x-accel-buffering") == ["no"]
        assert got.header("cache-control") == ["no-cache"]

    run(test())


def test_h03_held_back_what_an_engine_says_of_buffering_stands_and_is_not_said_twice() -> None:
    async def script(peer: Peer) -> None:
        said = b"Cache-Control: no-store\r\nX-Accel-Buffering: yes\r\n\r\n"
        await peer.send(SSE_HEAD.replace(b"\r\n\r\n", b"\r\n" + said), event(TOKEN), event(FINISH), LAST)

    async def test() -> None:
        async with running(Engine(script)) as gateway:
            got = await ask(gateway.port, post())
        assert got.header("x-accel-buffering") == ["yes"] and got.header("cache-control") == ["no-store"]

    run(test())
