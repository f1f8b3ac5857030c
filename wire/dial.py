"""How a connection to an engine comes about: its addresses tried, TLS agreed on, failures told in words."""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from wire import tls
from wire.origin import Origin
from wire.patience import within
from wire.resolve import Address, Addresses, Lookup, system_lookup
from wire.tasks import Tasks

# The next address is tried when one has not answered within this, and the first to answer is taken
# (RFC 8305's Connection Attempt Delay); uvloop itself would wait for the first to fail.
_STAGGER_S: Final = 0.25

# What is missing here, not there: descriptors, memory, free ports.
_OURS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
_OUR_LOOKUPS: Final = frozenset({socket.EAI_MEMORY, getattr(socket, "EAI_SYSTEM", socket.EAI_MEMORY)})


class CannotConnect(Exception):
    """No connection came about; `why` says so in words, `is_ours` that the engine had no part in it."""

    def __init__(self, why: str, *, is_ours: bool) -> None:
        super().__init__(why)
        self.why = why
        self.is_ours = is_ours


class Dialer:
    """Makes connections to one origin."""

    def __init__(
        self,
        origin: Origin,
        *,
        loop: asyncio.AbstractEventLoop,
        timeout_s: float,
        resolve_s: float,
        lookup: Lookup | None,
        credentials: tls.Kept | None,
        server_name: str | None,
        changed: Callable[[set[str]], None],
    ) -> None:
        self.timeout_s = timeout_s
        self.addresses = Addresses(
            origin.host, origin.port, lookup or system_lookup(loop), every_s=resolve_s, changed=changed
        )
        self._origin = origin
        self._loop = loop
        self._credentials: tls.Kept | None = None
        self._server_name: str | None = None
        self._tasks = Tasks()
        self.secure(credentials, server_name)

    def secure(self, credentials: tls.Kept | None, server_name: str | None) -> None:
        """How an https:// origin is believed; without `credentials`, by the system's authorities."""
        if self._origin.scheme == "https":
            self._credentials = credentials or tls.kept_client(tls.ClientTls())
            self._server_name = server_name or self._origin.host

    async def connect(self, protocol: asyncio.Protocol) -> None:
        """Connect `protocol`, within the time allowed for all of it.  Raises CannotConnect."""
        try:
            async with within(self.timeout_s):
                if self._origin.unix is not None:
                    await self._loop.create_unix_connection(lambda: protocol, self._origin.unix)
                else:
                    await self._connect(protocol)
        except TimeoutError:
            self.addresses.suspect()
            raise CannotConnect(f"no connection within {self.timeout_s:g} s", is_ours=False) from None
        except (OSError, UnicodeError) as error:  # a name no resolver can be asked for raises the latter
            raise CannotConnect(_why(error), is_ours=_is_ours(error)) from None

    async def _connect(self, protocol: asyncio.Protocol) -> None:
        addresses = self.addresses
        if addresses.is_literal:
            await self._to(protocol, self._origin.host)
            return
        known = await addresses.get()
        try:
            await self._to_any(protocol, known)
        except ssl.SSLError:
            raise  # somebody was there
        except OSError as error:
            if _is_ours(error) or not (others := await addresses.others(known)):
                raise
            await self._to_any(protocol, others)

    async def _to_any(self, protocol: asyncio.Protocol, addresses: Sequence[Address]) -> None:
        if len(addresses) == 1:
            family, place = addresses[0]
            if family == socket.AF_INET:
                await self._to(protocol, place[0])
                return
        connected = await self._first(addresses)
        try:
            await self._loop.create_connection(
                lambda: protocol, sock=connected, ssl=self._context(), server_hostname=self._server_name
            )
        except BaseException:
            connected.close()
            raise

    async def _to(self, protocol: asyncio.Protocol, host: str) -> None:
        await self._loop.create_connection(
            lambda: protocol,
            host,
            self._origin.port,
            ssl=self._context(),
            server_hostname=self._server_name,
        )

    def _context(self) -> ssl.SSLContext | None:
        return None if self._credentials is None else self._credentials.context

    async def _first(self, addresses: Sequence[Address]) -> socket.socket:
        """A socket connected to whichever address answers first, each having a head start on the next."""
        waiting = list(addresses)
        trying: set[asyncio.Task[socket.socket | OSError]] = set()
        errors: list[OSError] = []
        try:
            while waiting or trying:
                if waiting:
                    trying.add(self._tasks.spawn(self._try(waiting.pop(0)), name="connect"))
                done, trying = await asyncio.wait(
                    trying, timeout=_STAGGER_S if waiting else None, return_when=asyncio.FIRST_COMPLETED
                )
                results = [task.result() for task in done]
                errors += [one for one in results if isinstance(one, OSError)]
                connected = [one for one in results if isinstance(one, socket.socket)]
                for surplus in connected[1:]:
                    surplus.close()
                if connected:
                    return connected[0]
            raise next((error for error in errors if _is_ours(error)), errors[0])
        finally:
            for task in trying:
                if not task.cancel() and isinstance(late := task.result(), socket.socket):
                    late.close()

    async def _try(self, address: Address) -> socket.socket | OSError:
        family, place = address
        try:
            opened = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            return error
        opened.setblocking(False)
        try:
            await self._loop.sock_connect(opened, place)
        except OSError as error:
            opened.close()
            return error
        except BaseException:
            opened.close()
            raise
        return opened


def _is_ours(error: BaseException) -> bool:
    if isinstance(error, socket.gaierror):
        return error.errno in _OUR_LOOKUPS
    return isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.errno in _OURS


def _why(error: Exception) -> str:
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return "its name cannot be resolved"
    if isinstance(error, (ssl.SSLError, ssl.CertificateError)):
        return tls.why(error)
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionResetError):
        return "it closed the connection at once"
    if isinstance(error, FileNotFoundError):
        return "there is no socket at its path"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__
