"""After "stop" was pressed the engine decodes to its limit; cleaning up after many clients blocks all."""

import asyncio
from itertools import product

from tests.failures.support import at_once, last_counts, number, numbered, told
from tests.support import (
    FINISH,
    ROLE,
    SSE_HEAD,
    TOKEN,
    Engine,
    Peer,
    ask,
    chunk,
    event,
    json_answer,
    running,
    until,
)
from tests.support_shared import WAYS, run

# What the client was given when it left.  An engine that goes on, byte by byte, never comes to a length that
# it promised: what it sent behind that would be a wrong answer to the next request on the connection.
GIVEN = {
    "a role": SSE_HEAD + event(ROLE),
    "a token": SSE_HEAD + event(TOKEN),
    "an event and a half": SSE_HEAD + event(TOKEN) + chunk(b'data: {"choi'),
    "a reason": SSE_HEAD + event(TOKEN) + event(FINISH),
    "all but the end": SSE_HEAD + event(TOKEN) + event(FINISH) + event("[DONE]"),
    "half of a body": json_answer(b"x" * 100_000)[:-99_500],
    "half of a body in chunks": SSE_HEAD.replace(b"text/event-stream", b"application/json") + chunk(b"{"),
    "a compressed stream": SSE_HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n" + chunk(b"\x1f\x8b"),
    "half of an error": b"HTTP/1.1 500 Oops\r\nContent-Length: 100000\r\n\r\nhalf",
    "megabytes": SSE_HEAD + event(TOKEN) + chunk(b"x" * 300_000) * 10,
}
# While the engine is silent, and while it is sending.
GOES_ON = {"silent": 0.0, "sending": 0.01}


def test_h14_gone_mid_stream_the_engine_stops_working() -> None:
    """However the client leaves and whatever it was given, the engine's connection ends soon."""
    cases = list(product(WAYS, GIVEN, GOES_ON))

    async def test() -> None:
        gone: set[int] = set()
        still_there: list[tuple[str, ...]] = []

        async def script(peer: Peer) -> None:
            case = number(peer)
            _, given, goes_on = cases[case]
            try:
                await peer.send(GIVEN[given])
                while GOES_ON[goes_on]:
                    await peer.send(chunk(b": x\n\n") if b"chunked" in GIVEN[given] else b"x")
                    await asyncio.sleep(GOES_ON[goes_on])
            except (ConnectionError, RuntimeError):  # the latter is uvloop's word for a closed transport
                gone.add(case)
                return
            if await peer.left():
                gone.add(case)

        async def one(case: int) -> None:
            way = cases[case][0]
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(numbered(case))
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            await asyncio.wait_for(reader.read(1), 30)
            WAYS[way](writer)
            try:
                await until(lambda: case in gone, 30)
            except TimeoutError:
                still_there.append(cases[case])
            finally:
                writer.close()

        async with running(Engine(script)) as gateway, told(gateway.run_dir) as heard:
            await at_once((one(case) for case in range(len(cases))), 100)
            assert still_there == []
            await until(lambda: gateway.loads.totals(0) == (0, 0, 0, 0), 30)
            assert (await last_counts(gateway, heard)).get("requests") == len(cases)
            assert heard.counts["client_gone"] == len(cases), heard.counts

    run(test())


def test_h14_gone_mid_stream_many_at_once_hold_nobody_up() -> None:
    """A hundred clients leave with megabytes under way, read and unread: others are answered meanwhile."""

    async def test() -> None:
        streaming: set[int] = set()
        gone: set[int] = set()

        async def script(peer: Peer) -> None:
            try:
                await peer.send(SSE_HEAD, event(TOKEN))
                while True:
                    await peer.send(chunk(b"data: " + b"x" * 100_000 + b"\n\n"))
                    streaming.add(number(peer))
                    await asyncio.sleep(0.001)
            except (ConnectionError, RuntimeError):
                gone.add(number(peer))

        async def client(n: int) -> asyncio.StreamWriter:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1 << 16)
            writer.write(numbered(n))
            if n % 2:
                await reader.readexactly(2_000_000)
            else:
                await until(lambda: n in streaming)  # and reads nothing
            return writer

        async with running(Engine(script)) as gateway:
            writers = await at_once((client(n) for n in range(100)), 20)
            for writer in writers:
                writer.transport.abort()
            health = b"GET /health HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n"
            async with asyncio.timeout(30):
                while len(gone) < 100:
                    assert (await ask(gateway.port, health, timeout_s=30)).status == 200
            await until(lambda: gateway.loads.totals(0) == (0, 0, 0, 0), 30)

    run(test())
