"""Idle connections: how long an engine keeps them, and which are not to be used."""

import asyncio
import socket
from dataclasses import dataclass
from random import Random
from time import monotonic_ns
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from tests.support import until
from tests.wire.test_upstream import ASK, Heard, asked, pool_to
from wire.exchange import Ending
from wire.idle import Idle, promised_idle_s
from wire.origin import Origin
from wire.upstream import Pool


@pytest.mark.parametrize(
    ("field", "idle_s"),
    [
        (b"timeout=5, max=100", 4.0),
        (b"max=100, timeout=75", 60.0),
        (b"timeout=2", 1.6),
        (b"TIMEOUT = 10", 9.0),
        (b'timeout="30"', 29.0),
        (b"timeout=0", 0.0),
        (b"max=100", None),
        (b"", None),
        (b"timeout=", None),
        (b"timeout=-5", None),
        (b"xtimeout=9", None),
    ],
)
def test_what_keep_alive_promises_is_used_with_time_to_spare(field: bytes, idle_s: float | None) -> None:
    assert promised_idle_s(field) == idle_s


@given(st.binary(max_size=60))
def test_no_keep_alive_field_breaks_anything_or_holds_a_connection_longer_than_a_minute(field: bytes) -> None:
    found = promised_idle_s(field)
    assert found is None or 0 <= found <= 60


@dataclass(eq=False)
class Kept:
    """A connection that can be kept, and nothing else; asked whether it is another, it fails."""

    lost: bool = False
    idle_since_ns: int = 0
    transport: object = None

    def __eq__(self, other: object) -> bool:
        raise AssertionError("looked for among others")

    def drop(self) -> None:
        self.lost = True


@given(
    st.lists(st.sampled_from(["keep", "take", "lose", "lose all", "oldest", "retire"]), max_size=40),
    st.randoms(),
)
def test_what_was_lost_meanwhile_is_given_to_nobody_and_held_no_longer_than_the_others(
    steps: list[str], random: Random
) -> None:
    idle, there = Idle[Kept](3600.0), list[Kept]()  # `there`: those that are usable, oldest first
    for step in steps:
        if step == "keep":
            there.append(Kept())
            idle.keep(there[-1], monotonic_ns())
        elif step == "lose" and there:
            there.pop(random.randrange(len(there))).lost = True
        elif step == "lose all":
            while there:
                there.pop().lost = True
        elif step == "retire":
            idle.retire(monotonic_ns())
            assert len(idle._kept) == 0 or not idle._kept[0].lost
        elif step in ("take", "oldest"):
            expected = there.pop(-1 if step == "take" else 0) if there else None
            assert (idle.take(monotonic_ns()) if step == "take" else idle.oldest()) is expected
        assert len(idle) == len(there)
    idle.retire(monotonic_ns() + 3601 * 10**9)
    assert len(idle) == 0 and all(one.lost for one in there)


def test_a_new_limit_holds_for_what_is_kept_already_unless_the_engine_promised_its_own() -> None:
    idle = Idle[Kept](3600.0)
    idle.keep(Kept(), 0)
    idle.limit(1.0)
    idle.retire(2 * 10**9)
    assert len(idle) == 0
    idle.learn(b"timeout=30")
    idle.limit(1.0)
    idle.keep(Kept(), 0)
    idle.retire(28 * 10**9)
    assert len(idle) == 1
    idle.retire(30 * 10**9)
    assert len(idle) == 0


def test_a_pool_takes_over_other_limits_while_it_is_in_use() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            await go_on.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    limits: dict[str, Any] = {"connect_timeout_s": 5.0, "head_limit_bytes": 1000, "resolve_s": 9.0}
    go_on = asyncio.Event()

    async def test() -> None:
        async with pool_to(serve, idle_s=3600.0, max_connections=8) as (pool, seen):
            heard = [Heard() for _ in range(3)]
            for one in heard:
                pool.send(ASK, one)
            await until(lambda: len(seen) == 3)
            go_on.set()
            await until(lambda: (pool.open, pool.idle) == (3, 3))
            pool.limit(idle_s=3600.0, max_connections=1, **limits)
            assert (pool.open, pool.idle) == (1, 1)
            go_on.clear()
            first, second = Heard(), Heard()
            pool.send(ASK, first)
            pool.send(ASK, second)
            assert await second.ending() is Ending.FULL and not first.endings
            go_on.set()
            await until(lambda: pool.idle == 1)
            pool.sweep(monotonic_ns() + 60 * 10**9)
            assert pool.idle == 1
            pool.limit(idle_s=30.0, max_connections=1, **limits)
            pool.sweep(monotonic_ns() + 60 * 10**9)
            assert pool.idle == 0

    uvloop.run(test())


def test_the_engines_own_limit_is_learned_from_its_first_answer() -> None:
    def answering(extra: bytes) -> bytes:
        return b"HTTP/1.1 200 OK\r\n" + extra + b"Content-Length: 2\r\n\r\n{}"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(answering(b"Keep-Alive: timeout=30\r\n"))

    async def test() -> None:
        async with pool_to(serve, idle_s=0.05) as (pool, seen):
            await asked(pool)
            await asyncio.sleep(0.2)
            assert await asked(pool) == (Ending.COMPLETE, b"{}") and len(seen) == 1
            pool.sweep(10**30)
            assert pool.idle == 0

    uvloop.run(test())


def test_an_engine_that_promises_nothing_at_all_is_asked_on_a_fresh_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=0\r\nContent-Length: 2\r\n\r\n{}")

    async def test() -> None:
        async with pool_to(serve) as (pool, seen):
            for n in range(1, 4):
                assert await asked(pool) == (Ending.COMPLETE, b"{}") and len(seen) == n

    uvloop.run(test())


async def answered(listener: socket.socket) -> socket.socket:
    """Take one connection and answer one request on it."""
    loop = asyncio.get_running_loop()
    engine, _ = await asyncio.wait_for(loop.sock_accept(listener), 30)
    await loop.sock_recv(engine, 4096)
    await loop.sock_sendall(engine, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    return engine


@pytest.mark.parametrize("ending", ["fin", "words"])
def test_an_end_the_loop_has_not_told_of_yet_is_seen_before_use(ending: str) -> None:
    """The engine ends while the loop is busy elsewhere; the next request must not be sent into that."""

    async def test() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)

            pool = Pool(Origin.parse(f"http://127.0.0.1:{listener.getsockname()[1]}"), loop=loop)
            first = Heard()
            pool.send(ASK, first)
            engine = await answered(listener)
            assert await first.ending() is Ending.COMPLETE and pool.idle == 1
            await asyncio.sleep(0.02)  # idle long enough to be looked at
            if ending == "fin":
                engine.shutdown(socket.SHUT_WR)
            else:
                engine.send(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
            second = Heard()
            exchange = pool.send(ASK, second)  # in the same turn of the loop
            assert not exchange.reused
            with engine, await answered(listener):
                assert await second.ending() is Ending.COMPLETE
            pool.close()

    uvloop.run(test())
