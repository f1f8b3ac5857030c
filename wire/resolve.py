"""Which addresses a host name stands for: looked up at intervals, and kept where the lookup fails."""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic_ns
from typing import Any, Final

from wire.tasks import Tasks

# Family and socket address, as getaddrinfo gives them.
Address = tuple[int, tuple[Any, ...]]
Lookup = Callable[[str, int], Awaitable[Sequence[Address]]]

# Failed connections ask again no sooner than this, or an engine that is down would flood its name server.
_AGAIN_NS: Final = 1_000_000_000


def system_lookup(loop: asyncio.AbstractEventLoop) -> Lookup:
    """Ask the system's resolver, in a thread of the loop's."""

    async def lookup(host: str, port: int) -> list[Address]:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys((int(family), place) for family, _, _, _, place in found))

    return lookup


class Addresses:
    """The addresses of one host.  A literal address stands for itself and is never looked up.

    getaddrinfo tells no time to live, so names are asked for again every `every_s`; `changed(gone)` is told
    which addresses the name no longer stands for.
    """

    def __init__(
        self, host: str, port: int, lookup: Lookup, *, every_s: float, changed: Callable[[set[str]], None]
    ) -> None:
        self.known: Sequence[Address] = ()
        self._host = host
        self._port = port
        self._lookup = lookup
        self._every_ns = int(every_s * 1e9)
        self._changed = changed
        self._tasks = Tasks()
        self._looking: asyncio.Task[None] | None = None
        self._asked_ns: int | None = None
        self.is_literal = _is_literal(host)

    def refresh_every(self, every_s: float) -> None:
        """Look again this often from now on."""
        self._every_ns = int(every_s * 1e9)

    def refresh_if_due(self, now_ns: int) -> None:
        """Begin a lookup when the last is `every_s` old; nothing before the first use."""
        if self._asked_ns is not None and now_ns - self._asked_ns >= self._every_ns:
            self._begin()

    def suspect(self) -> None:
        """None of the known addresses answers: begin to look for others, unless that was just done."""
        if self._may_ask_again():
            self._begin()

    async def others(self, tried: Sequence[Address]) -> Sequence[Address]:
        """Look again after `tried` failed; what is new, if anything."""
        if not self._may_ask_again() and self._looking is None:
            return ()
        try:
            await self._look()
        except (OSError, UnicodeError):
            return ()
        return [address for address in self.known if address not in tried]

    async def get(self) -> Sequence[Address]:
        """The addresses; waits only where none is known yet.  Raises OSError, or UnicodeError for no name."""
        if not self.known:
            await self._look()
        return self.known

    def _may_ask_again(self) -> bool:
        return not self.is_literal and (
            self._asked_ns is None or monotonic_ns() - self._asked_ns >= min(_AGAIN_NS, self._every_ns)
        )

    def _begin(self) -> "asyncio.Task[None]":
        if self._looking is None:
            self._looking = self._tasks.spawn(self._renew(), name=f"look up {self._host}")
        return self._looking

    async def _look(self) -> None:
        # Whoever gives up waiting leaves the lookup to the others who wait for it.
        await asyncio.shield(self._begin())
        if not self.known:
            raise self._error or OSError("the name has no address")

    _error: OSError | UnicodeError | None = None

    async def _renew(self) -> None:
        self._asked_ns = monotonic_ns()
        try:
            found = await self._lookup(self._host, self._port)
        except (OSError, UnicodeError) as error:
            self._error = error  # what was known stays: a name server that is down stops no engine
            return
        finally:
            self._looking = None
        if not found:
            return
        gone = {str(place[0]) for _, place in self.known} - {str(place[0]) for _, place in found}
        self.known = tuple(found)
        if gone:
            self._changed(gone)


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
