"""The two connections of a tunnel: what one does not take holds up the other, and neither outlives it."""

import asyncio
from collections.abc import Callable
from socket import IPPROTO_TCP, SO_KEEPALIVE, SOL_SOCKET, TCP_NODELAY
from typing import Protocol, cast

from gateway.outcome import Outcome
from wire import lent
from wire.exchange import Ending
from wire.handshake import Handshake
from wire.response import MalformedAnswer, ResponseHead
from wire.upstream import Pool


class Joint(Protocol):
    """What joins them."""

    is_open: bool  # the engine agreed: bytes go both ways

    def client_said(self, data: bytes) -> None: ...

    def switched(self, end: "EngineEnd", agreed: ResponseHead) -> None: ...

    def pace(self, end: "End", *, pause: bool) -> None: ...

    def after_silence(self, callback: Callable[[], None]) -> asyncio.TimerHandle: ...

    def abort(self) -> None: ...

    def ended(self, what: Outcome) -> None: ...


class Owner(Protocol):
    """Who had the client's connection before, and keeps its books."""

    def connection_lost(self, exc: Exception | None) -> None: ...


class End(asyncio.Protocol):
    """One connection."""

    __slots__ = ("_joint", "_stalled", "came_bytes", "is_connected", "other", "transport")

    transport: asyncio.Transport
    other: "End"

    def __init__(self, joint: Joint) -> None:
        self._joint = joint
        self._stalled: asyncio.TimerHandle | None = None
        self.is_connected = False
        self.came_bytes = 0  # behind the handshake

    def keep_alive(self) -> None:
        """Idle tunnels are the ends' own business; a peer that vanished is the kernel's to find out."""
        found = self.transport.get_extra_info("socket")
        if found is not None:
            found.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
            if isinstance(self.transport.get_extra_info("peername"), tuple):
                found.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)

    def pause_writing(self) -> None:
        self._joint.pace(self.other, pause=True)
        if self._stalled is None:
            self._stalled = self._joint.after_silence(self._joint.abort)

    def resume_writing(self) -> None:
        self._taken()
        self._joint.pace(self.other, pause=False)

    def close(self) -> None:
        """Close when what was written is taken, or after a silence."""
        if self.is_connected and not self.transport.is_closing():
            if self.transport.get_write_buffer_size() and self._stalled is None:
                self._stalled = self._joint.after_silence(self.transport.abort)
            self.transport.close()

    def abort(self) -> None:
        if self.is_connected:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_connected = False
        self._taken()

    def _taken(self) -> None:
        stalled, self._stalled = self._stalled, None
        if stalled is not None:
            stalled.cancel()

    def _let_go(self) -> None:
        """Nothing more comes of it: not to wait for a collection it keeps none of those that keep it."""
        del self._joint
        if hasattr(self, "other"):
            del self.other


class ClientEnd(End):
    """The client's, taken over from whoever read its request."""

    __slots__ = ("_owner",)

    def __init__(self, joint: Joint, owner: Owner, transport: asyncio.Transport) -> None:
        super().__init__(joint)
        self._owner = owner
        self.transport = transport
        self.is_connected = True

    def data_received(self, data: bytes) -> None:
        self.came_bytes += len(data)
        self._joint.client_said(data)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._owner.connection_lost(exc)
        self._joint.ended(Outcome.COMPLETE if exc is None and self._joint.is_open else Outcome.CLIENT_GONE)
        self._let_go()


class EngineEnd(End):
    """The engine's.  `heard` is set when it has answered the handshake or never will."""

    __slots__ = ("_is_lent", "_pool", "_was_lost", "handshake", "heard")

    def __init__(self, joint: Joint, pool: Pool, handshake: Handshake, heard: asyncio.Future[Ending]) -> None:
        super().__init__(joint)
        self._pool = pool
        self._is_lent = False
        self._was_lost = False
        self.handshake = handshake
        self.heard = heard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self.is_connected = True
        self.keep_alive()

    def lent(self) -> None:
        """The pool counts this connection from now on until it is lost."""
        self._is_lent = True
        if self._was_lost:
            lent.hung_up(self._pool)

    def data_received(self, data: bytes) -> None:
        if self._joint.is_open:
            self.came_bytes += len(data)
            self.other.transport.write(data)
            return
        if self.heard.done():
            return
        try:
            self.handshake.feed(data)
        except MalformedAnswer:
            self._hear(Ending.MALFORMED)
            return
        if self.handshake.switched is not None:
            self._joint.switched(self, self.handshake.switched)
            self._hear(Ending.COMPLETE)
        elif self.handshake.complete:
            self._hear(Ending.COMPLETE)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._was_lost = True
        if self._is_lent:
            lent.hung_up(self._pool)
        if exc is None:
            self.handshake.eof()
        self._hear(Ending.COMPLETE if self.handshake.complete else Ending.CUT)
        if self._joint.is_open:
            self._joint.ended(Outcome.COMPLETE if exc is None else Outcome.CUT)
        self._let_go()

    def _hear(self, ending: Ending) -> None:
        if not self.heard.done():
            self.heard.set_result(ending)
