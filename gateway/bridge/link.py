"""A worker's line to the process that learns: what is worth learning goes there, what was learned comes back.

Never waited for: while the line is down, or too much waits in it, nothing is told, and that is counted.
"""

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any, cast

from gateway.bridge.frames import (
    Fleets,
    Frame,
    Learned,
    Template,
    pack,
    read,
    unpacker,
)

_RECONNECT_S = 0.5
_WAITING_BYTES = 4 << 20
_AT_ONCE = 16  # of what comes, before requests have their turn

Count = MutableMapping[tuple[str, ...], int]


class BridgeLink(asyncio.Protocol):
    """`heard` takes what was learned.  `counts` are the worker's tallies."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        path: str,
        heard: Callable[[Learned | Template], None],
        counts: Count,
    ) -> None:
        self._loop = loop
        self._path = path
        self._heard = heard
        self._counts = counts
        self._transport: asyncio.WriteTransport | None = None
        self._unpacker = unpacker()
        self._fleets = Fleets(())
        self._is_reading = False

    async def keep_connected(self) -> None:
        """Connect, and again whenever the line breaks, until cancelled."""
        while True:
            if self._transport is None:
                try:
                    await self._loop.create_unix_connection(lambda: self, self._path)
                except OSError:
                    pass  # the process starts, or starts again
            await asyncio.sleep(_RECONNECT_S)

    def renew(self, fleets: Fleets) -> None:
        """These are to be learned from now on."""
        if fleets != self._fleets:
            self._fleets = fleets
            if self._transport is not None:
                self._transport.write(pack(fleets))

    def tell(self, frame: Frame) -> bool:
        """Write a frame; False, and counted, when it cannot be written now."""
        transport = self._transport
        if transport is None or transport.get_write_buffer_size() > _WAITING_BYTES:
            reason = "link_down" if transport is None else "link_full"
            self._counts["bridge_dropped", reason] = self._counts.get(("bridge_dropped", reason), 0) + 1
            return False
        transport.write(pack(frame))
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._unpacker = unpacker()
        self._transport.write(pack(self._fleets))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._unpacker.feed(data)
        if not self._is_reading:
            self._read()

    def _read(self) -> None:
        """Take some of what came, and let the loop have its turns while there is more."""
        self._is_reading = False
        try:
            for _ in range(_AT_ONCE):
                frame = next(self._unpacker, None)
                if frame is None:
                    return
                self._took(frame)
        except (ValueError, TypeError):  # msgpack's and our own: framing is lost
            self._counts["bridge_dropped", "malformed"] = (
                self._counts.get(("bridge_dropped", "malformed"), 0) + 1
            )
            if self._transport is not None:
                self._transport.abort()
            return
        self._is_reading = True
        self._loop.call_soon(self._read)

    def _took(self, frame: Any) -> None:
        told = read(frame)
        if isinstance(told, Learned | Template):
            self._heard(told)
