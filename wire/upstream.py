"""The sockets towards engines and arms: pooled keep-alive connections, one exchange on each at a time.

`Pool.send` never waits.  What the engine answers is handed to the caller's `Answer` from the very
read that brought it, with the instant of that read, so nothing stands between socket and clock.
"""

import asyncio
from collections.abc import Callable, Sequence
from enum import StrEnum
from socket import IPPROTO_TCP, TCP_NODELAY
from time import monotonic_ns
from typing import Protocol, cast

from wire.dial import CannotConnect, Dialer
from wire.idle import Idle
from wire.origin import Origin
from wire.resolve import Lookup
from wire.response import Heads, MalformedAnswer, ResponseHead, ResponseReader
from wire.room import Room
from wire.tasks import Tasks
from wire.tls import Kept


class Ending(StrEnum):
    """How an exchange ended."""

    COMPLETE = "complete"
    CUT = "cut"  # the engine closed or reset before its answer was whole
    REFUSED = "refused"  # no connection came about
    FULL = "full"  # there was no connection left to make on this side: nothing the engine did
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    MALFORMED = "malformed"  # what came is not HTTP
    SHUTDOWN = "shutdown"  # this side stops, or has stopped using the engine, and could wait no longer


class Answer(Protocol):
    """What is told of an engine's answer, synchronously: one head, any number of pieces, one ending.

    `more`: what follows the head came in the same read, and is told next.  `framed`: `body` as it came, when
    that was exactly one whole chunk.
    """

    def head_came(self, head: ResponseHead, at_ns: int, *, more: bool) -> None: ...

    def body_came(self, body: bytes, at_ns: int, framed: bytes | None) -> None: ...

    def ended(self, ending: Ending, at_ns: int) -> None: ...


class Exchange:
    """One request and its answer."""

    __slots__ = (
        "_answer",
        "_connection",
        "_flow",
        "_paused",
        "_unsent",
        "bodiless",
        "heard",
        "reused",
        "streaming",
        "trailers",
        "written_ns",
    )

    def __init__(
        self, answer: Answer, *, bodiless: bool, streaming: bool, flow: Callable[[bool], None] | None
    ) -> None:
        self._answer: Answer | None = answer
        self._connection: _Connection | None = None
        self._flow = flow
        self._paused = False  # asked for, perhaps before there is a connection to pause
        self._unsent: Sequence[bytes] = ()
        self.bodiless = bodiless
        self.streaming = streaming
        self.reused = False
        self.heard = False  # a byte of the answer came
        self.written_ns = 0  # when the request was handed to a connected socket; 0: it was not
        self.trailers: list[tuple[bytes, bytes]] = []

    def write(self, data: bytes) -> None:
        """Send a further piece of a streaming request's body."""
        if self._connection is not None:
            self._connection.transport.write(data)
        elif self._answer is not None:
            self._unsent = [*self._unsent, data]
            if self._flow is not None:
                self._flow(True)  # until there is a connection to take it

    def finish(self) -> None:
        """The request's body is whole."""
        self.streaming = False

    def pause_reading(self) -> None:
        self._paused = True
        if self._connection is not None:
            self._connection.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        if self._connection is not None:
            self._connection.resume_reading()

    def cancel(self, ending: Ending = Ending.CANCELLED) -> None:
        """Close the connection; the answer ends now, unless it has ended."""
        connection = self._connection
        self._end(ending, monotonic_ns())
        if connection is not None:
            connection.drop()

    def _end(self, ending: Ending, at_ns: int) -> None:
        answer, self._answer = self._answer, None
        self._connection = None
        self._unsent = ()
        if answer is not None:
            answer.ended(ending, at_ns)


class Pool:
    """Keep-alive connections to one origin.

    Idle ones are retired after `idle_s`, or by what the engine promises in `Keep-Alive` (`wire.idle`).
    `max_connections` bounds busy and idle ones together, `room` those of all pools of the process; beyond
    either an exchange ends FULL.
    """

    def __init__(
        self,
        origin: Origin,
        *,
        loop: asyncio.AbstractEventLoop,
        connect_timeout_s: float = 5.0,
        idle_s: float = 4.0,
        max_connections: int = 4096,
        credentials: Kept | None = None,
        server_name: str | None = None,
        head_limit_bytes: int = 64 << 10,
        resolve_s: float = 30.0,
        lookup: Lookup | None = None,
        room: Room | None = None,
    ) -> None:
        self.origin = origin
        self.authority = origin.authority.encode()
        self.mount = origin.path.encode()
        self.trouble: str | None = None  # why the last connection could not be made; None when it could
        self._loop = loop
        self._max = max_connections
        self._head_limit_bytes = head_limit_bytes
        self._heads = Heads()
        self._room = room or Room(max_connections)
        self._room.join(self)
        self._dialer = Dialer(
            origin,
            loop=loop,
            timeout_s=connect_timeout_s,
            resolve_s=resolve_s,
            lookup=lookup,
            credentials=credentials,
            server_name=server_name,
            changed=self._moved,
        )
        self._all: set[_Connection] = set()
        self._idle = Idle[_Connection](idle_s)
        self._leaving: set[_Connection] = set()  # busy, towards an address the name no longer stands for
        self._tasks = Tasks()
        self._closed = False

    @property
    def open(self) -> int:
        """Connections there are or are being made."""
        return len(self._all)

    @property
    def idle(self) -> int:
        return len(self._idle)

    def send(
        self,
        request: bytes | Sequence[bytes],
        answer: Answer,
        *,
        bodiless: bool = False,
        streaming: bool = False,
        fresh: bool = False,
        flow: Callable[[bool], None] | None = None,
    ) -> Exchange:
        """Send a request; never waits.

        `bodiless`: the answer has no body whatever its length says (HEAD).  `streaming`: the body goes on
        with `Exchange.write` until `finish`; `flow(True)` then asks to pause, `flow(False)` to go on.
        `fresh`: do not take an idle connection.
        """
        exchange = Exchange(answer, bodiless=bodiless, streaming=streaming, flow=flow)
        connection = None if fresh else self._idle.take()
        if connection is not None:
            exchange.reused = True
            connection.begin(exchange)
            exchange.written_ns = monotonic_ns()
            if isinstance(request, bytes):
                connection.transport.write(request)
            else:
                connection.transport.writelines(request)
            return exchange
        exchange._unsent = (request,) if isinstance(request, bytes) else request
        if self._closed:
            self._loop.call_soon(exchange._end, Ending.REFUSED, monotonic_ns())
        elif (len(self._all) >= self._max and not self.evict()) or not self._room.take():
            self._loop.call_soon(exchange._end, Ending.FULL, monotonic_ns())
        else:
            connection = _Connection(self)
            self._all.add(connection)
            self._tasks.spawn(self._connect(exchange, connection), name=f"connect {self.origin.authority}")
        return exchange

    def sweep(self, now_ns: int) -> None:
        """Retire idle connections past their time and look after names; call about once a second."""
        self._idle.retire(now_ns)
        self._dialer.addresses.refresh_if_due(now_ns)

    def limit(self, *, connect_timeout_s: float, head_limit_bytes: int) -> None:
        """Use other limits from now on; connections that are open keep theirs."""
        self._dialer.timeout_s = connect_timeout_s
        self._head_limit_bytes = head_limit_bytes

    def secure(self, credentials: Kept | None, server_name: str | None) -> None:
        self._dialer.secure(credentials, server_name)

    def evict(self) -> bool:
        """Give up the connection idle longest; False when none is."""
        connection = self._idle.oldest()
        if connection is None:
            return False
        connection.drop()
        self._forget(connection)
        return True

    def close(self) -> None:
        """Close the idle connections; busy ones close when their exchange ends."""
        self._closed = True
        self._room.part(self)
        while self.evict():
            pass

    async def _connect(self, exchange: Exchange, connection: "_Connection") -> None:
        try:
            await self._dialer.connect(cast(asyncio.Protocol, connection))
        except CannotConnect as error:
            self.trouble = error.why
            self._forget(connection)
            exchange._end(Ending.FULL if error.is_ours else Ending.REFUSED, monotonic_ns())
            return
        self.trouble = None
        if exchange._answer is None:  # cancelled while the connection was being made
            self._give_back(connection, monotonic_ns())
            return
        if connection.lost:  # closed, or out of step, before this task ran on: nobody will tell of it again
            exchange._end(Ending.CUT, monotonic_ns())
            return
        pieces, exchange._unsent = exchange._unsent, ()
        connection.begin(exchange)
        if exchange._flow is not None:
            exchange._flow(False)
        exchange.written_ns = monotonic_ns()
        connection.transport.writelines(pieces)

    def _give_back(self, connection: "_Connection", at_ns: int) -> None:
        if self._closed or connection.lost or connection in self._leaving:
            connection.drop()
            return
        head = connection._reader.head
        if not connection.idle_since_ns and head is not None:  # its first answer: the others say the same
            self._idle.learn(head.field(b"keep-alive"))
        self._idle.keep(connection, at_ns)

    def _moved(self, gone: set[str]) -> None:
        """The name no longer stands for these addresses: what is connected there is used up and not again."""
        for connection in list(self._all):
            transport = getattr(connection, "transport", None)
            peer = None if transport is None else transport.get_extra_info("peername")
            if peer is None or str(peer[0]) not in gone:
                continue
            if connection.exchange is not None:
                self._leaving.add(connection)
            else:
                connection.drop()  # `connection_lost` takes it from the idle ones

    def _lost(self, connection: "_Connection") -> None:
        self._forget(connection)
        if connection.exchange is None:
            self._idle.forget(connection)

    def _forget(self, connection: "_Connection") -> None:
        """A connection is no more; told twice where it failed between being made and being used."""
        if connection in self._all:
            self._all.remove(connection)
            self._leaving.discard(connection)
            self._room.give()


class _Connection:
    """One socket.  Idle, or in one exchange.

    An asyncio.Protocol in all but name: a class with a base from outside cannot be compiled to a native one.
    """

    __slots__ = (
        "_paused",
        "_pool",
        "_reader",
        "_told_head",
        "exchange",
        "idle_since_ns",
        "lost",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._reader = ResponseReader(pool._head_limit_bytes, pool._heads)
        self._paused = False
        self._told_head = False
        self.exchange: Exchange | None = None
        self.idle_since_ns = 0
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        if self._pool.origin.unix is None:
            transport.get_extra_info("socket").setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)

    def begin(self, exchange: Exchange) -> None:
        self.exchange = exchange
        exchange._connection = self
        self._told_head = False
        self._reader.begin(bodiless=exchange.bodiless)
        if exchange._paused:
            self.pause_reading()

    def data_received(self, data: bytes) -> None:
        at_ns = monotonic_ns()
        exchange = self.exchange
        if exchange is None or (answer := exchange._answer) is None:
            self.drop()  # an engine that speaks unasked is out of step
            return
        reader = self._reader
        try:
            body = reader.feed(data)
        except MalformedAnswer:
            exchange.heard = True
            exchange._end(Ending.MALFORMED, at_ns)
            self.drop()
            return
        if not self._told_head:
            exchange.heard = True
            head = reader.head
            if head is None:
                return
            self._told_head = True
            answer.head_came(head, at_ns, more=bool(body) or reader.complete)
            if exchange._answer is None:
                return  # cancelled by what it was told
        if body:
            answer.body_came(body, at_ns, reader.framed)
        if reader.complete and exchange._answer is not None:
            self._complete(exchange, at_ns)

    def _complete(self, exchange: Exchange, at_ns: int) -> None:
        reader = self._reader
        assert reader.head is not None
        reusable = (
            reader.head.keep_alive
            and not reader.surplus
            and not exchange.streaming
            and not self.transport.get_write_buffer_size()  # answered before the request was taken whole
        )
        self.exchange = None
        if reader.trailers:
            exchange.trailers = reader.trailers
        if self._paused:
            self.resume_reading()
        # Given back before the caller hears of it: what it sends next may use this connection.
        if reusable and not self.lost:
            self._pool._give_back(self, at_ns)
        else:
            self.drop()
        exchange._end(Ending.COMPLETE, at_ns)

    def connection_lost(self, exc: Exception | None) -> None:
        at_ns = monotonic_ns()
        self.lost = True
        exchange = self.exchange
        self._pool._lost(self)
        if exchange is not None:
            self.exchange = None
            exchange._end(Ending.COMPLETE if exc is None and self._reader.eof() else Ending.CUT, at_ns)

    def eof_received(self) -> bool:
        return False  # close our side too; connection_lost decides what it meant

    def drop(self) -> None:
        """Close at once; nothing written is waited for."""
        self.exchange = None
        if not self.lost:
            self.lost = True
            self.transport.abort()

    def pause_reading(self) -> None:
        if not self._paused and not self.lost:
            self._paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self._paused and not self.lost:
            self._paused = False
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        if self.exchange is not None and self.exchange._flow is not None:
            self.exchange._flow(True)

    def resume_writing(self) -> None:
        if self.exchange is not None and self.exchange._flow is not None:
            self.exchange._flow(False)
