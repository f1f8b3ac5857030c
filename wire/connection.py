"""One socket to an engine: bytes to an exchange and from it, and what its end means."""

import asyncio
from socket import IPPROTO_TCP, TCP_NODELAY
from typing import TYPE_CHECKING, cast

from wire.clock import monotonic_ns
from wire.exchange import Ending, Exchange
from wire.response import MalformedAnswer, ResponseReader

if TYPE_CHECKING:
    from wire.upstream import Pool


class Connection:
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

    def __init__(self, pool: "Pool") -> None:
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
