"""How a client's connection comes in: counted, turned away where there are too many, TLS agreed on."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from gateway import answers
from gateway.doors import TOO_MANY
from gateway.server import Connection
from gateway.service import Service
from gateway.tls import Certificates
from wire.tasks import Tasks
from wire.tls import Kept

# Refused clients that are heard out so that a reset does not eat the answer; the others are closed at once.
_MOST_LINGERING = 32
_LINGER_S = 1.0
# Within this a client must answer the end of a TLS session; uvloop would wait 30 s.
_SHUTDOWN_S = 5.0


@dataclass(slots=True)
class Porter:
    """What every connection's entrance shares."""

    service: Service
    certificates: Certificates
    connection: Callable[[], Connection]
    tasks: Tasks
    lingering: int = 0

    def entrance(self) -> "Entrance":
        """A protocol for one connection that was just accepted."""
        return Entrance(self)


class Entrance(asyncio.Protocol):
    """One connection until it is let in, and one that is not."""

    __slots__ = ("_lingers", "_peer", "_porter", "_transport")

    def __init__(self, porter: Porter) -> None:
        self._porter = porter
        self._lingers = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        porter = self._porter
        peername = transport.get_extra_info("peername")
        peer = str(peername[0]).encode() if isinstance(peername, tuple) else b"unknown"
        reason = porter.service.doors.enter(peer)
        if reason is not None:
            self._turn_away(transport, reason)
        elif (tls := porter.certificates.listener) is None:
            connection = porter.connection()
            transport.set_protocol(connection)
            connection.connection_made(transport)
        else:
            transport.pause_reading()  # what comes is the handshake's
            porter.tasks.spawn(self._handshake(transport, peer, tls), name="handshake")

    async def _handshake(self, transport: asyncio.Transport, peer: bytes, tls: Kept) -> None:
        porter = self._porter
        connection = porter.connection()
        secured = None
        try:
            secured = await porter.service.loop.start_tls(
                transport,
                connection,
                tls.context,
                server_side=True,
                ssl_handshake_timeout=porter.service.limits.handshake_timeout_s,
                ssl_shutdown_timeout=_SHUTDOWN_S,
            )
        except OSError:  # not TLS, no certificate where one is needed, too slow, gone
            pass
        finally:
            if secured is None:
                porter.service.doors.leave(peer)
        if secured is None:
            porter.service.tallies.counts[("refused", "tls_handshake")] += 1
            transport.abort()
        else:
            connection.connection_made(secured)

    def _turn_away(self, transport: asyncio.Transport, reason: str) -> None:
        porter = self._porter
        porter.service.tallies.counts[("refused", reason)] += 1
        if porter.certificates.listener is not None or porter.lingering >= _MOST_LINGERING:
            transport.abort()  # words would need the handshake that is to be spared
            return
        if reason == TOO_MANY:
            status, kind, message = (
                503,
                "service_unavailable",
                "the gateway has as many clients as it can serve",
            )
        else:
            status, kind, message = 429, "rate_limit_error", "too many connections from this address"
        transport.write(answers.refusal(status, kind, message, code=reason, retry_after_s=1, close=True))
        transport.write_eof()
        self._lingers = True
        porter.lingering += 1
        porter.service.loop.call_later(_LINGER_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lingers:
            self._porter.lingering -= 1
