"""How a client's connection comes in: counted, and turned away in words where there are too many."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from gateway.clients import answers
from gateway.clients.doors import TOO_MANY
from gateway.clients.handshake import TlsAcceptor
from gateway.clients.server import Connection
from gateway.clients.tls import Certificates
from gateway.service import Service
from wire.tasks import Tasks

_BACKLOG = 2048
# Refused clients that are heard out so that a reset does not eat the answer; the others are closed at once.
_MOST_LINGERING = 32
_LINGER_S = 1.0


class Closes(Protocol):
    """What accepts connections until it is closed."""

    def close(self) -> None: ...


@dataclass(slots=True)
class Porter:
    """What every connection's entrance shares."""

    service: Service
    certificates: Certificates
    connection: Callable[[], Connection]
    tasks: Tasks
    lingering: int = 0

    async def serve(self, listener: socket.socket) -> Closes:
        """Take connections from `listener`, which is closed with what is returned."""
        certificates = self.certificates
        if certificates.listener is None:
            return await self.service.loop.create_server(
                lambda: _Entrance(self), sock=listener, backlog=_BACKLOG
            )
        return TlsAcceptor(listener, self.service, certificates.listener, self.connection, self.tasks)


class _Entrance(asyncio.Protocol):
    """One connection until it is let in, and one that is not."""

    __slots__ = ("_lingers", "_porter")

    def __init__(self, porter: Porter) -> None:
        self._porter = porter
        self._lingers = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        peername = transport.get_extra_info("peername")
        peer = str(peername[0]).encode() if isinstance(peername, tuple) else b"unknown"
        reason = self._porter.service.doors.enter(peer)
        if reason is not None:
            self._turn_away(transport, reason)
            return
        connection = self._porter.connection()
        transport.set_protocol(cast(asyncio.Protocol, connection))
        connection.connection_made(transport)

    def _turn_away(self, transport: asyncio.Transport, reason: str) -> None:
        porter = self._porter
        porter.service.tallies.counts[("refused", reason)] += 1
        if porter.lingering >= _MOST_LINGERING:
            transport.abort()
            return
        status, kind, message = 429, "rate_limit_error", "too many connections from this address"
        if reason == TOO_MANY:
            status, kind, message = 503, "service_unavailable", "there are as many clients as can be served"
        transport.write(answers.refusal(status, kind, message, code=reason, retry_after_s=1, close=True))
        transport.write_eof()
        self._lingers = True
        porter.lingering += 1
        porter.service.loop.call_later(_LINGER_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lingers:
            self._porter.lingering -= 1
