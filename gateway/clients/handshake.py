"""How a client's connection comes in over TLS: counted from its accept on, its handshake bounded in time.

uvloop's own TLS server tells nobody of handshakes that fail or never end, so they could not be counted; and
its `start_tls` loses what came before it was called.  So connections are accepted here; that costs some
microseconds more, of a handshake's thousand.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final, cast

from gateway.clients.server import Connection
from gateway.service import Service
from wire.tasks import Tasks
from wire.tls import Kept

_AT_ONCE: Final = 64
# When descriptors ran out (the caps are meant to prevent it), accepting waits; clients wait in the backlog.
_PAUSE_S: Final = 0.1
# Within this a client must answer the end of a TLS session; uvloop would wait 30 s.
_SHUTDOWN_S: Final = 5.0


class TlsAcceptor:
    """Takes connections from one listening socket until it is closed."""

    def __init__(
        self,
        listener: socket.socket,
        service: Service,
        tls: Kept,
        connection: Callable[[], Connection],
        tasks: Tasks,
    ) -> None:
        self._listener = listener
        self._service = service
        self._tls = tls
        self._connection = connection
        self._tasks = tasks
        self._is_closed = False
        listener.setblocking(False)
        self._go_on()

    def close(self) -> None:
        """Accept no more; connections go on."""
        if not self._is_closed:
            self._is_closed = True
            self._service.loop.remove_reader(self._listener)
            self._listener.close()

    def _go_on(self) -> None:
        if not self._is_closed:
            self._service.loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, place = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._service.loop.remove_reader(self._listener)
                self._service.loop.call_later(_PAUSE_S, self._go_on)
                return
            accepted.setblocking(False)
            peer = str(place[0]).encode()
            reason = self._service.doors.enter(peer)
            if reason is not None:
                # Words would need the handshake that is to be spared.
                self._service.tallies.counts[("refused", reason)] += 1
                accepted.close()
                continue
            self._tasks.spawn(self._shake_hands(accepted, peer), name="handshake")

    async def _shake_hands(self, accepted: socket.socket, peer: bytes) -> None:
        service, connection = self._service, self._connection()
        try:
            await service.loop.connect_accepted_socket(
                lambda: cast(asyncio.Protocol, connection),
                accepted,
                ssl=self._tls.context,
                ssl_handshake_timeout=service.limits.handshake_timeout_s,
                ssl_shutdown_timeout=_SHUTDOWN_S,
            )
        except OSError:  # not TLS, no certificate where one is needed, too slow, gone
            service.tallies.counts[("refused", "tls_handshake")] += 1
        finally:
            if not connection.was_made:  # else it tells of its end itself
                service.doors.leave(peer)
