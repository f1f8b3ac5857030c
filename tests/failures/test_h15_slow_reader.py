"""One client that does not read makes the memory climb until the process is killed."""

import asyncio
import socket
from hashlib import sha256

import pytest

from gateway.spec import LimitsSpec
from tests.failures.support import number, numbered, told
from tests.support import (
    FINISH,
    LAST,
    SSE_HEAD,
    TOKEN,
    Engine,
    Peer,
    ask,
    chunk,
    event,
    json_answer,
    parse,
    post,
    running,
    streams,
    until,
)
from tests.support_shared import run

PIECE, PIECES = 65536, 1300
MOST = 40 << 20  # what a stream's sockets may hold, generously; what is streamed is 85 MB
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
HEADS = {
    "events in chunks": SSE_HEAD + event(TOKEN),
    "events with a length": WHOLE + b"Content-Length: %d\r\n\r\n" % (PIECES * PIECE),
    "events until the connection's end": WHOLE + b"\r\n",
    "compressed events": SSE_HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n",
    "a body in chunks": SSE_HEAD.replace(b"text/event-stream", b"audio/wav"),
    "an error": b"HTTP/1.1 500 Oops\r\nContent-Length: %d\r\n\r\n" % (PIECES * PIECE),
    "comments": SSE_HEAD,
}
FRAMED = ("events in chunks", "compressed events", "a body in chunks", "comments")


def unread_client(port: int, rcvbuf: int = 4096) -> socket.socket:
    """A client with small buffers that reads only when told to."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
    client.connect(("127.0.0.1", port))
    client.setblocking(False)
    return client


async def settled(count: "dict[int, int]") -> dict[int, int]:
    """The counts, once they have stopped growing for a while."""
    before: dict[int, int] = {}
    while before != count:
        before = dict(count)
        await asyncio.sleep(0.4)
    return before


def test_h15_slow_reader_stops_the_engine_and_not_the_memory() -> None:
    """In every framing, for HTTP/1.1 and 1.0: TCP pushes back to the engine, and others are served."""

    async def test() -> None:
        sent: dict[int, int] = {}

        async def script(peer: Peer) -> None:
            kind = list(HEADS)[number(peer) % len(HEADS)]
            piece = b": " + b"c" * (PIECE - 4) + b"\n\n" if kind == "comments" else b"x" * PIECE
            await peer.send(HEADS[kind])
            for _ in range(PIECES):
                await peer.send(chunk(piece) if kind in FRAMED else piece)
                sent[number(peer)] = sent.get(number(peer), 0) + PIECE

        slow, quick = Engine(script), Engine(streams(TOKEN, FINISH))
        async with running(slow) as gateway, running(quick) as other:
            clients = []
            for n in range(2 * len(HEADS)):
                client = unread_client(gateway.port)
                request = numbered(n) if n < len(HEADS) else numbered(n).replace(b"HTTP/1.1", b"HTTP/1.0")
                client.sendall(request)
                clients.append(client)
            await until(lambda: len(sent) == len(clients))
            assert (await ask(other.port, post())).is_whole
            assert {n: size for n, size in (await settled(sent)).items() if size > MOST} == {}
            for client in clients:
                client.close()
            await until(lambda: gateway.loads.totals(0) == (0, 0, 0, 0))

    run(test())


@pytest.mark.parametrize("framing", ["chunks", "a length", "the connection's end"])
def test_h15_slow_reader_that_reads_on_gets_every_byte(framing: str) -> None:
    """Stopped and started many times, on both sides of every buffer: nothing is lost, doubled or moved."""
    pieces = [sha256(b"%d" % n).digest() * 4096 for n in range(160)]
    body = b"".join(pieces)
    stated = {
        "chunks": b"Transfer-Encoding: chunked\r\n\r\n",
        "a length": b"Content-Length: %d\r\n\r\n" % len(body),
        "the connection's end": b"\r\n",
    }[framing]

    async def script(peer: Peer) -> None:
        await peer.send(WHOLE.replace(b"text/event-stream", b"audio/wav") + stated)
        for piece in pieces:
            await peer.send(chunk(piece) if framing == "chunks" else piece)
        await peer.send(LAST if framing == "chunks" else b"")
        if framing == "the connection's end":
            peer.close()

    async def test() -> None:
        loop = asyncio.get_running_loop()
        async with running(Engine(script)) as gateway:
            client = unread_client(gateway.port, 1 << 16)
            client.sendall(post())
            raw, pauses = [], 0
            while piece := await asyncio.wait_for(loop.sock_recv(client, 1 << 20), 30):
                raw.append(piece)
                if len(raw) % 40 == 0 and pauses < 20:
                    pauses += 1
                    await asyncio.sleep(0.02)
            client.close()
            assert parse(b"".join(raw)).text == body
            assert gateway.loads.totals(0) == (0, 0, 0, 0)

    run(test())


def test_h15_slow_reader_that_stalls_is_given_up() -> None:
    """A client that reads nothing for the idle limit loses its connection, and the engine its work."""

    async def test() -> None:
        gone: set[int] = set()

        async def script(peer: Peer) -> None:
            kind = list(HEADS)[number(peer)]
            try:
                await peer.send(HEADS[kind])
                for _ in range(PIECES):
                    await peer.send(chunk(b"x" * PIECE) if kind in FRAMED else b"x" * PIECE)
            except (ConnectionError, RuntimeError):
                gone.add(number(peer))

        kinds = [n for n, kind in enumerate(HEADS) if kind != "comments"]
        limits = LimitsSpec(idle_timeout_s=0.5)
        async with running(Engine(script), limits=limits) as gateway, told(gateway.run_dir) as heard:
            clients = []
            for n in kinds:
                clients.append(unread_client(gateway.port))
                clients[-1].sendall(numbered(n))
            await until(lambda: gone == set(kinds))
            await until(lambda: gateway.loads.totals(0) == (0, 0, 0, 0))
            await until(lambda: heard.frames[-1]["connections"] == 0)
            assert heard.counts.get("client_gone") == len(kinds)
            for client in clients:
                client.close()

    run(test())


@pytest.mark.parametrize("ending", ["whole", "cut"])
def test_h15_slow_reader_of_the_last_stretch_is_given_up(ending: str) -> None:
    """The engine is done, and what is left waits in the gateway alone: not for ever."""

    async def script(peer: Peer) -> None:
        await peer.send(json_answer(b"x" * (20 << 20))[: -1 if ending == "cut" else None])
        peer.close()

    async def test() -> None:
        limits = LimitsSpec(idle_timeout_s=0.5, keep_alive_s=0.5)
        async with running(Engine(script), limits=limits) as gateway, told(gateway.run_dir) as heard:
            client = unread_client(gateway.port)
            client.sendall(post())
            await until(lambda: gateway.inflight() == 1)
            loop, got = asyncio.get_running_loop(), 0
            while gateway.inflight():  # read up to the last stretch
                got += len(await asyncio.wait_for(loop.sock_recv(client, 16384), 30))
            assert 0 < got < 20 << 20
            await until(lambda: bool(heard.frames) and heard.frames[-1]["connections"] == 0)
            client.close()

    run(test())


def test_h15_slow_reader_of_a_first_engines_comments_holds_back_the_second() -> None:
    """The retry inherits the client: its engine is not read faster than the first was."""

    async def test() -> None:
        sent: dict[int, int] = {}

        async def first(peer: Peer) -> None:
            for piece in [SSE_HEAD, *[chunk(b": %b\n\n" % (b"c" * 60000))] * 200]:
                try:
                    await asyncio.wait_for(peer.send(piece), 0.3)
                except TimeoutError:
                    break
            peer.reset()

        async def second(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN))
            for _ in range(1600):
                await peer.send(chunk(b"x" * PIECE))
                sent[0] = sent.get(0, 0) + PIECE

        async def either(peer: Peer) -> None:  # which engine is asked first is drawn at random
            turns.append(peer)
            await (first if len(turns) == 1 else second)(peer)

        turns: list[Peer] = []
        async with running(Engine(either), Engine(either)) as gateway:
            client = unread_client(gateway.port)
            client.sendall(post())
            await until(lambda: len(turns) == 1)
            # The engine's reset is seen once the client has read enough for reading to go on.
            loop = asyncio.get_running_loop()
            while len(turns) == 1:
                await asyncio.wait_for(loop.sock_recv(client, 1 << 20), 30)
            assert (await settled(sent)).get(0, 0) < MOST
            client.close()
            await until(lambda: gateway.inflight(0) + gateway.inflight(1) == 0)

    run(test())


@pytest.mark.parametrize("target", ["/v1/x?", "/refused/"])
def test_h15_slow_reader_that_pipelines_is_not_read_while_it_does_not_read(target: str) -> None:
    """Else one client that only writes could fill the gateway's memory with answers, relayed or our own."""

    async def test() -> None:
        async with running(Engine(lambda peer: peer.send(json_answer(b"x" * 30000)))) as gateway:
            client = unread_client(gateway.port)
            one = f"GET {target}{'a' * 30000} HTTP/1.1\r\nHost: g\r\n\r\n".encode()
            data, loop, taken = one * 2000, asyncio.get_running_loop(), 0
            try:
                while taken < len(data):
                    piece = data[taken : taken + PIECE]
                    await asyncio.wait_for(loop.sock_sendall(client, piece), 0.7)
                    taken += len(piece)
            except TimeoutError:
                pass
            assert taken < MOST
            client.close()

    run(test())
