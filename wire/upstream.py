"""The sockets towards engines and arms: pooled keep-alive connections, one exchange on each at a time.

`Pool.send` never waits.  What the engine answers is handed to the caller's `Answer` from the very
read that brought it, with the instant of that read, so nothing stands between socket and clock.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from wire.clock import monotonic_ns
from wire.connection import Connection
from wire.dial import CannotConnect, Dialer
from wire.exchange import Answer, Ending, Exchange
from wire.idle import Idle
from wire.origin import Origin
from wire.resolve import Lookup
from wire.response import Heads
from wire.room import Room
from wire.tasks import Tasks
from wire.tls import Kept


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
        self._all: set[Connection] = set()
        self._idle = Idle[Connection](idle_s)
        self._leaving: set[Connection] = set()  # busy, towards an address the name no longer stands for
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
        at_ns = monotonic_ns()
        connection = None if fresh else self._idle.take(at_ns)
        if connection is not None:
            exchange.reused = True
            connection.begin(exchange)
            exchange.written_ns = at_ns
            if isinstance(request, bytes):
                connection.transport.write(request)
            else:
                connection.transport.writelines(request)
            return exchange
        exchange._unsent = (request,) if isinstance(request, bytes) else request
        if self._closed:
            self._loop.call_soon(exchange._end, Ending.REFUSED, at_ns)
        elif (len(self._all) >= self._max and not self.evict()) or not self._room.take():
            self._loop.call_soon(exchange._end, Ending.FULL, at_ns)
        else:
            connection = Connection(self)
            self._all.add(connection)
            self._tasks.spawn(self._connect(exchange, connection), name=f"connect {self.origin.authority}")
        return exchange

    def sweep(self, now_ns: int) -> None:
        """Retire idle connections past their time and look after names; call about once a second."""
        self._idle.retire(now_ns)
        self._dialer.addresses.refresh_if_due(now_ns)

    def limit(
        self,
        *,
        connect_timeout_s: float,
        head_limit_bytes: int,
        idle_s: float,
        max_connections: int,
        resolve_s: float,
    ) -> None:
        """Use other limits from now on; busy connections go on, and keep their limit on heads."""
        self._dialer.timeout_s = connect_timeout_s
        self._dialer.addresses.refresh_every(resolve_s)
        self._head_limit_bytes = head_limit_bytes
        self._idle.limit(idle_s)
        self._max = max_connections
        while len(self._all) > max_connections and self.evict():
            pass

    def secure(self, credentials: Kept | None, server_name: str | None) -> None:
        self._dialer.secure(credentials, server_name)

    def evict(self) -> bool:
        """Give up the connection idle longest; False when none is."""
        connection = self._idle.oldest()
        if connection is None:
            return False
        connection.drop()
        self._lost(connection)
        return True

    def close(self) -> None:
        """Close the idle connections; busy ones close when their exchange ends."""
        self._closed = True
        self._room.part(self)
        while self.evict():
            pass

    async def _connect(self, exchange: Exchange, connection: "Connection") -> None:
        try:
            await self._dialer.connect(cast(asyncio.Protocol, connection))
        except CannotConnect as error:
            self.trouble = error.why
            self._lost(connection)
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

    def _give_back(self, connection: "Connection", at_ns: int) -> None:
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
                connection.drop()

    def _lost(self, connection: "Connection") -> None:
        """A connection is no more; told twice where it failed between being made and being used."""
        if connection in self._all:
            self._all.remove(connection)
            self._leaving.discard(connection)
            self._room.give()
