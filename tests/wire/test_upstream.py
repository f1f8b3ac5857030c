"""The pool over real sockets: what is reused, what is given up, and that every exchange ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.connections import listening, unheard
from tests.support import until
from tests.support_shared import run
from wire.exchange import Ending
from wire.fetch import fetch
from wire.http1 import request_bytes
from wire.origin import Origin
from wire.response import ResponseHead
from wire.upstream import Pool

ASK = request_bytes("GET", "/", [("host", "h")])
YES = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Heard:
    """An answer as it was told."""

    def __init__(self) -> None:
        self.head: ResponseHead | None = None
        self.body = b""
        self.endings: list[Ending] = []

    def head_came(self, head: ResponseHead, at_ns: int, *, more: bool) -> None:
        self.head = head

    def body_came(self, body: bytes, at_ns: int, framed: bytes | None) -> None:
        self.body += body

    def ended(self, ending: Ending, at_ns: int) -> None:
        self.endings.append(ending)

    async def ending(self) -> Ending:
        await until(lambda: bool(self.endings), 30)
        await asyncio.sleep(0.01)
        assert len(self.endings) == 1
        return self.endings[0]


def saying(answer: bytes, *, close: bool = False) -> Serve:
    """Answer each request with these bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(answer)
            if close:
                return

    return serve


@asynccontextmanager
async def pool_to(serve: Serve, **options: Any) -> AsyncIterator[tuple[Pool, list[int]]]:
    """A pool towards a server that runs `serve` for each connection, and the connections it saw."""
    seen: list[int] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(len(seen))
        await serve(reader, writer)

    async with listening(connected) as port:
        pool = Pool(Origin.parse(f"http://127.0.0.1:{port}"), loop=asyncio.get_running_loop(), **options)
        try:
            yield pool, seen
        finally:
            pool.close()


async def asked(pool: Pool, **options: Any) -> tuple[Ending, bytes]:
    heard = Heard()
    pool.send(ASK, heard, **options)
    return await heard.ending(), heard.body


def test_a_connection_is_used_again_and_only_one_is_open() -> None:
    async def test() -> None:
        async with pool_to(saying(YES)) as (pool, seen):
            for _ in range(3):
                assert await asked(pool) == (Ending.COMPLETE, b"yes")
            assert len(seen) == 1 and (pool.open, pool.idle) == (1, 1)
            assert await asked(pool, fresh=True) == (Ending.COMPLETE, b"yes")
            assert len(seen) == 2 and (pool.open, pool.idle) == (2, 2)

    run(test())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_a_connection_is_used_again_after_an_answer_without_a_body(answer: bytes) -> None:
    async def test() -> None:
        async with pool_to(saying(answer)) as (pool, seen):
            for _ in range(3):
                assert await asked(pool) == (Ending.COMPLETE, b"")
            assert len(seen) == 1 and (pool.open, pool.idle) == (1, 1)

    run(test())


@pytest.mark.parametrize(
    "answer",
    [
        YES + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nyes",
        b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nyes",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 3\r\n\r\nyes",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nyes\r\n0\r\n\r\nmore",
    ],
    ids=["surplus answer", "close", "1.0", "1.0, both", "surplus after chunks"],
)
def test_a_connection_out_of_step_or_said_to_close_is_not_used_again(answer: bytes) -> None:
    async def test() -> None:
        async with pool_to(saying(answer)) as (pool, seen):
            assert await asked(pool) == (Ending.COMPLETE, b"yes")
            assert await asked(pool) == (Ending.COMPLETE, b"yes")
            await until(lambda: pool.open == 0)
            assert len(seen) == 2 and pool.idle == 0

    run(test())


def test_idle_connections_are_retired_before_the_engine_does_it() -> None:
    async def test() -> None:
        async with pool_to(saying(YES), idle_s=0.05) as (pool, seen):
            await asked(pool)
            await asyncio.sleep(0.1)
            assert await asked(pool) == (Ending.COMPLETE, b"yes") and len(seen) == 2
            await asyncio.sleep(0.1)
            pool.sweep(10**30)
            await until(lambda: (pool.open, pool.idle) == (0, 0))

    run(test())


def test_an_idle_connection_the_engine_closed_is_forgotten() -> None:
    async def test() -> None:
        async with pool_to(saying(YES, close=True)) as (pool, seen):
            await asked(pool)
            await until(lambda: (pool.open, pool.idle) == (0, 0))
            assert await asked(pool) == (Ending.COMPLETE, b"yes") and len(seen) == 2

    run(test())


def test_an_exchange_cancelled_while_connecting_ends_once_and_its_connection_serves_the_next() -> None:
    async def test() -> None:
        async with pool_to(saying(YES)) as (pool, seen):
            heard = Heard()
            pool.send(ASK, heard).cancel()
            assert heard.endings == [Ending.CANCELLED]
            await until(lambda: pool.idle == 1)
            assert await asked(pool) == (Ending.COMPLETE, b"yes")
            assert heard.endings == [Ending.CANCELLED] and len(seen) == 1

    run(test())


def test_a_cancelled_exchange_closes_its_connection() -> None:
    async def test() -> None:
        left = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")
            try:
                await reader.read(1)
            finally:
                left.set()

        async with pool_to(serve) as (pool, _):
            heard = Heard()
            exchange = pool.send(ASK, heard)
            await until(lambda: heard.body == b"x")
            exchange.cancel()
            await asyncio.wait_for(left.wait(), 30)
            await until(lambda: (pool.open, pool.idle) == (0, 0))
            assert await heard.ending() is Ending.CANCELLED

    run(test())


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}", "unix:/nowhere/at.all", "http://a..b:80"])
def test_where_nobody_listens_or_no_name_can_be_asked_for_it_is_refused(url: str) -> None:
    async def test() -> None:
        with unheard() as port:
            pool = Pool(Origin.parse(url.format(port=port)), loop=asyncio.get_running_loop())
            assert await asked(pool) == (Ending.REFUSED, b"") and pool.open == 0

    run(test())


def test_beyond_its_bound_and_after_its_close_a_pool_refuses() -> None:
    async def test() -> None:
        async with pool_to(saying(YES), max_connections=1) as (pool, _):
            first, second = Heard(), Heard()
            pool.send(ASK, first)
            pool.send(ASK, second)
            assert await second.ending() is Ending.FULL
            assert await first.ending() is Ending.COMPLETE
            pool.close()
            await until(lambda: pool.open == 0)
            assert await asked(pool) == (Ending.REFUSED, b"")

    run(test())


def test_a_close_lets_running_exchanges_finish() -> None:
    async def test() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.05)
            writer.write(YES)
            await reader.read()

        async with pool_to(serve) as (pool, _):
            heard = Heard()
            pool.send(ASK, heard)
            pool.close()
            assert await heard.ending() is Ending.COMPLETE and heard.body == b"yes"
            await until(lambda: (pool.open, pool.idle) == (0, 0))

    run(test())


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 408 Request Timeout\r\n\r\n", b""], ids=["speaks", "resets"])
def test_every_exchange_ends_where_connections_are_lost_as_soon_as_made(greeting: bytes) -> None:
    """One lost between its making and its use must not take the request with it into silence."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        if not greeting:
            writer.transport.abort()

    async def test() -> None:
        async with pool_to(serve) as (pool, _):
            heard = [Heard() for _ in range(50)]
            for one in heard:
                pool.send(ASK, one)
            endings = {await one.ending() for one in heard}
            assert endings <= {Ending.CUT, Ending.REFUSED, Ending.COMPLETE}
            await until(lambda: (pool.open, pool.idle) == (0, 0))

    run(test())


def test_a_connection_lost_before_its_exchange_began_ends_it() -> None:
    """The same without luck: the loss is told before the connecting task runs on."""

    async def test() -> None:
        async with pool_to(saying(YES)) as (pool, _):
            loop, heard = asyncio.get_running_loop(), Heard()
            made = loop.create_connection

            class Losing:
                async def create_connection(self, *args: Any, **options: Any) -> Any:
                    transport, protocol = await made(*args, **options)
                    transport.abort()
                    await asyncio.sleep(0.02)
                    return transport, protocol

            pool._dialer._loop = Losing()  # type: ignore[assignment]
            pool.send(ASK, heard)
            assert await heard.ending() is Ending.CUT and pool.open == 0

    run(test())


@pytest.mark.parametrize(
    ("answer", "status", "ending"),
    [
        (b"", 0, Ending.TIMEOUT),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", 200, Ending.TIMEOUT),
        (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", 0, Ending.MALFORMED),
        (b"nonsense of a kind\r\n\r\n", 0, Ending.MALFORMED),
        (YES, 200, Ending.COMPLETE),
    ],
    ids=["silent", "stalls", "bare line feeds", "nonsense", "whole"],
)
def test_a_fetch_ends_in_time_and_says_how(answer: bytes, status: int, ending: Ending) -> None:
    async def test() -> None:
        async with pool_to(saying(answer)) as (pool, _):
            fetched = await fetch(pool, ASK, 0.2)
            assert (fetched.status, fetched.ending) == (status, ending)
            await until(lambda: pool.open == pool.idle)

    run(test())


def test_a_fetch_keeps_no_more_than_its_limit() -> None:
    async def test() -> None:
        async with pool_to(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnine byte")) as (pool, _):
            assert (await fetch(pool, ASK, 1, limit_bytes=4)).body == b"nine"

    run(test())


def test_a_pause_asked_for_before_the_connection_is_made_holds() -> None:
    async def test() -> None:
        async with pool_to(saying(YES)) as (pool, _):
            heard = Heard()
            exchange = pool.send(ASK, heard)
            exchange.pause_reading()
            await asyncio.sleep(0.1)
            assert heard.head is None
            exchange.resume_reading()
            assert await heard.ending() is Ending.COMPLETE

    run(test())


def test_a_streamed_body_waits_for_its_connection_and_for_an_engine_that_reads_slowly() -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await go_on.wait()
            await reader.readexactly(len(ASK) + (8 << 20))
            writer.write(YES)
            await reader.read()

        async with pool_to(serve) as (pool, _):
            heard, flow = Heard(), list[bool]()
            exchange = pool.send(ASK, heard, streaming=True, flow=flow.append)
            exchange.write(b"x" * (1 << 20))
            assert flow == [True]
            await until(lambda: flow[:2] == [True, False])
            for _ in range(7):
                exchange.write(b"x" * (1 << 20))
            exchange.finish()
            await until(lambda: flow[-1])
            go_on.set()
            assert await heard.ending() is Ending.COMPLETE and not flow[-1]

    run(test())


def test_a_connection_whose_request_was_not_taken_whole_is_not_used_again() -> None:
    async def test() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(YES)
            await asyncio.sleep(0.5)

        async with pool_to(serve) as (pool, _):
            heard = Heard()
            pool.send([ASK, b"x" * (16 << 20)], heard)
            assert await heard.ending() is Ending.COMPLETE and pool.idle == 0

    run(test())
