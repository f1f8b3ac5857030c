"""How connections to engines come about: names, several addresses, Unix sockets, and what lacks here."""

import asyncio
import os
import resource
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest
import uvloop

from tests.connections import listening
from tests.support import until
from tests.wire.test_upstream import ASK, YES, Heard, asked, saying
from wire.exchange import Ending
from wire.origin import Origin
from wire.resolve import Address
from wire.room import Room
from wire.upstream import Pool

SILENT = "127.0.0.9"


class Names:
    """A name server: what it says, and how often it was asked."""

    def __init__(self, *hosts: str, port: int) -> None:
        self.port = port
        self.asked = 0
        self.error: OSError | None = None
        self.say(*hosts)

    def say(self, *hosts: str) -> None:
        self._found = [
            (socket.AF_INET6, (host, self.port, 0, 0)) if ":" in host else (socket.AF_INET, (host, self.port))
            for host in hosts
        ]

    async def lookup(self, host: str, port: int) -> Sequence[Address]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self._found


@asynccontextmanager
async def engines(*hosts: str, **options: Any) -> AsyncIterator[tuple[int, list[str]]]:
    """One server on several loopback addresses and one port; where each connection came in."""
    came: list[str] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(writer.get_extra_info("sockname")[0])
        await saying(YES)(reader, writer)

    port = 0
    async with AsyncExitStack() as stack:
        for host in hosts:
            port = await stack.enter_async_context(listening(connected, host, port, **options))
        yield port, came


@asynccontextmanager
async def pool(url: str, names: Names | None = None, **options: Any) -> AsyncIterator[Pool]:
    made = Pool(
        Origin.parse(url),
        loop=asyncio.get_running_loop(),
        lookup=None if names is None else names.lookup,
        **options,
    )
    try:
        yield made
    finally:
        made.close()
        await until(lambda: made.open == 0)


def test_a_name_is_looked_up_once_and_then_when_it_is_old() -> None:
    async def test() -> None:
        async with engines("127.0.0.1") as (port, _):
            names = Names("127.0.0.1", port=port)
            async with pool(f"http://engine.test:{port}", names, resolve_s=30) as to:
                for _ in range(3):
                    assert await asked(to, fresh=True) == (Ending.COMPLETE, b"yes")
                to.sweep(monotonic_ns())
                assert names.asked == 1
                to.sweep(monotonic_ns() + 31 * 10**9)
                await until(lambda: names.asked == 2)

    uvloop.run(test())


def test_requests_that_come_together_ask_for_the_name_once() -> None:
    async def test() -> None:
        async with engines("127.0.0.1") as (port, _):
            names = Names("127.0.0.1", port=port)
            async with pool(f"http://engine.test:{port}", names) as to:
                heard = [Heard() for _ in range(20)]
                for one in heard:
                    to.send(ASK, one)
                assert {await one.ending() for one in heard} == {Ending.COMPLETE} and names.asked == 1

    uvloop.run(test())


@pytest.mark.parametrize("busy", [False, True])
def test_when_the_name_moves_connections_to_the_old_address_are_not_used_again(busy: bool) -> None:
    async def test() -> None:
        async with engines("127.0.0.2", "127.0.0.3") as (port, came):
            names = Names("127.0.0.2", port=port)
            async with pool(f"http://engine.test:{port}", names, resolve_s=30) as to:
                assert await asked(to) == (Ending.COMPLETE, b"yes") and came == ["127.0.0.2"]
                names.say("127.0.0.3")
                heard = Heard()
                if busy:
                    to.send(ASK, heard)
                to._dialer.addresses.refresh_if_due(monotonic_ns() + 31 * 10**9)
                await until(lambda: names.asked == 2)
                if busy:
                    assert await heard.ending() is Ending.COMPLETE and heard.body == b"yes"
                await until(lambda: to.idle == 0)
                assert await asked(to) == (Ending.COMPLETE, b"yes") and came == ["127.0.0.2", "127.0.0.3"]

    uvloop.run(test())


def test_a_name_server_that_is_down_stops_no_engine() -> None:
    async def test() -> None:
        async with engines("127.0.0.1") as (port, _):
            names = Names("127.0.0.1", port=port)
            async with pool(f"http://engine.test:{port}", names) as to:
                await asked(to)
                names.error = socket.gaierror(socket.EAI_AGAIN, "try again")
                to.sweep(monotonic_ns() + 31 * 10**9)
                await until(lambda: names.asked == 2)
                assert await asked(to, fresh=True) == (Ending.COMPLETE, b"yes")

    uvloop.run(test())


def test_a_failed_connection_asks_for_the_name_again_and_takes_what_is_new() -> None:
    async def test() -> None:
        async with engines("127.0.0.3") as (port, came):
            names = Names("127.0.0.2", port=port)
            async with pool(f"http://engine.test:{port}", names, resolve_s=0.01) as to:
                assert await asked(to) == (Ending.REFUSED, b"")
                names.say("127.0.0.3")
                await asyncio.sleep(0.02)
                assert await asked(to) == (Ending.COMPLETE, b"yes") and came == ["127.0.0.3"]

    uvloop.run(test())


def quietly(answer: bytes) -> Any:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await saying(answer)(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    return serve


@contextmanager
def silent(port: int) -> Iterator[None]:
    """SILENT does not even refuse: its backlog is full, so that what comes is dropped."""
    with socket.socket() as listener:
        listener.bind((SILENT, port))
        listener.listen(0)
        with socket.create_connection(listener.getsockname()):
            yield


@pytest.mark.parametrize("dead", [["127.0.0.8"], [SILENT], ["127.0.0.8", SILENT, "::1"]])
def test_of_several_addresses_the_first_that_answers_is_taken(dead: list[str]) -> None:
    """One that refuses costs nothing; one that says nothing costs a moment and not the whole time allowed."""

    async def test() -> None:
        async with engines("127.0.0.3") as (port, came):
            names = Names(*dead, "127.0.0.3", port=port)
            with silent(port):
                began_ns = monotonic_ns()
                async with pool(f"http://engine.test:{port}", names, connect_timeout_s=60) as to:
                    assert await asked(to) == (Ending.COMPLETE, b"yes") and came == ["127.0.0.3"]
                assert monotonic_ns() - began_ns < 30 * 10**9

    uvloop.run(test())


def test_where_no_address_answers_it_is_refused_and_nothing_is_left_open() -> None:
    async def test() -> None:
        names = Names("127.0.0.8", "127.0.0.9", port=1)
        async with pool("http://engine.test:1", names) as to:
            assert await asked(to) == (Ending.REFUSED, b"") and to.trouble == "connection refused"

    uvloop.run(test())


def test_why_there_is_no_connection_is_told_in_words(tmp_path: Path) -> None:
    async def test() -> None:
        unknown = Names(port=1)
        unknown.error = socket.gaierror(socket.EAI_NONAME, "no such name")
        async with pool("http://engine.test:1", unknown) as to:
            assert await asked(to) == (Ending.REFUSED, b"")
            assert to.trouble == "its name cannot be resolved"
        async with pool(f"unix:{tmp_path}/none.sock") as to:
            assert await asked(to) == (Ending.REFUSED, b"")
            assert to.trouble == "there is no socket at its path"
        with socket.socket() as free:
            free.bind((SILENT, 0))
            port = free.getsockname()[1]
        with silent(port):
            async with pool(f"http://{SILENT}:{port}", connect_timeout_s=0.1) as to:
                assert await asked(to) == (Ending.REFUSED, b"")
                assert to.trouble == "no connection within 0.1 s"

    uvloop.run(test())


def test_an_ipv6_engine_is_reached_and_named_in_brackets() -> None:
    async def test() -> None:
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")
        async with engines("::1") as (port, came):
            async with pool(f"http://[::1]:{port}") as to:
                assert to.authority == b"[::1]:%d" % port
                assert await asked(to) == (Ending.COMPLETE, b"yes") and came == ["::1"]
            async with pool(f"http://engine.test:{port}", Names("::1", port=port)) as to:
                assert await asked(to) == (Ending.COMPLETE, b"yes")

    uvloop.run(test())


def test_an_engine_on_a_unix_socket_is_reached_and_its_connection_kept(tmp_path: Path) -> None:
    async def test() -> None:
        path = str(tmp_path / "engine.sock")
        server = await asyncio.start_unix_server(quietly(YES), path)
        async with pool(f"unix:{path}") as to:
            for _ in range(2):
                assert await asked(to) == (Ending.COMPLETE, b"yes")
            await asyncio.sleep(0.02)
            assert await asked(to) == (Ending.COMPLETE, b"yes") and to.open == 1
        server.close()

    uvloop.run(test())


# TLS


# What is missing here


@asynccontextmanager
async def no_descriptors() -> AsyncIterator[None]:
    """Until its end this process can open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []

    def take_all() -> None:
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            pass

    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        take_all()
        await asyncio.sleep(0.05)  # what the other side still had to close
        take_all()
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


def test_without_a_descriptor_left_an_exchange_ends_full_and_the_next_is_served() -> None:
    async def test() -> None:
        async with engines("127.0.0.1") as (port, _):
            for url, names in (
                (f"http://127.0.0.1:{port}", None),
                (f"http://engine.test:{port}", Names("127.0.0.1", port=port)),
                (f"http://engine.test:{port}", Names("127.0.0.9", "127.0.0.1", port=port)),
            ):
                async with pool(url, names) as to:
                    await asked(to)
                    to.evict()
                    await until(lambda: to.open == 0)
                    async with no_descriptors():
                        assert await asked(to) == (Ending.FULL, b"") and to.open == 0
                        assert to.trouble == "too many open files"
                    assert await asked(to) == (Ending.COMPLETE, b"yes")

    uvloop.run(test())


def test_pools_share_their_room_and_idle_connections_make_some() -> None:
    async def test() -> None:
        async with engines("127.0.0.2", "127.0.0.3") as (port, _):
            room = Room(2)
            async with (
                pool(f"http://127.0.0.2:{port}", room=room) as one,
                pool(f"http://127.0.0.3:{port}", room=room) as other,
            ):
                held = [Heard() for _ in range(3)]
                for heard in held:
                    one.send(ASK, heard)
                assert [await heard.ending() for heard in held] == [
                    Ending.COMPLETE,
                    Ending.COMPLETE,
                    Ending.FULL,
                ]
                assert (one.idle, room.taken) == (2, 2)
                assert await asked(other) == (Ending.COMPLETE, b"yes")
                assert (one.open, other.open, room.taken) == (1, 1, 2)
        assert room.taken == 0

    uvloop.run(test())


def test_however_connections_come_to_nothing_the_room_is_given_back() -> None:
    async def test() -> None:
        async with engines("127.0.0.1") as (port, _):
            room = Room(4)
            names = Names("127.0.0.1", port=port)
            async with pool(f"http://engine.test:{port}", names, room=room) as to:
                names.say("127.0.0.9")
                for _ in range(10):
                    await asked(to)
                names.say("127.0.0.1")
                to._dialer.addresses.suspect()
                for turn in range(20):
                    heard = Heard()
                    exchange = to.send(ASK, heard)
                    if turn % 2:
                        await asyncio.sleep(0.001 * (turn % 3))
                    exchange.cancel()
                await until(lambda: room.taken == to.open == to.idle)
            assert room.taken == 0

    uvloop.run(test())
