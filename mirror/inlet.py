"""The shadow process's end of the lane: a unix socket for any number of workers, each read for itself."""

import asyncio
import os
from collections.abc import Callable
from typing import cast

import msgpack

from mirror.frames import Copy, MalformedFrame, Missed, Served, read_frame

_SLACK_BYTES = 1 << 20  # headers and field names beside the largest body


class Inlet:
    """Listens at `path`, gives every frame to `took`, and closes any one stream that is not frames."""

    def __init__(self, path: str, frame_bytes: int, took: Callable[[Copy | Served | Missed], None]) -> None:
        self._path = path
        self._took = took
        self.buffer_bytes = frame_bytes + _SLACK_BYTES
        self.malformed = 0
        self.connections: set[_Worker] = set()
        self._server: asyncio.AbstractServer | None = None

    async def open(self) -> None:
        """Start listening; a socket file left by a process that died is removed."""
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: _Worker(self), self._path)
        os.chmod(self._path, 0o600)

    def close(self) -> None:
        """Stop listening and let the workers go."""
        if self._server is not None:
            self._server.close()
        for worker in list(self.connections):
            worker.drop()
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass

    def took(self, frame: object) -> None:
        """Check one object and pass it on.  Raises MalformedFrame."""
        self._took(read_frame(frame))


class _Worker(asyncio.Protocol):
    """One worker's connection."""

    _transport: asyncio.Transport

    def __init__(self, inlet: Inlet) -> None:
        self._inlet = inlet
        self._unpacker = msgpack.Unpacker(max_buffer_size=inlet.buffer_bytes)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._inlet.connections.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._unpacker.feed(data)
            for frame in self._unpacker:
                self._inlet.took(frame)
        except (MalformedFrame, msgpack.UnpackException, ValueError):
            # Framing is lost: whatever follows could be read as anything.
            self._inlet.malformed += 1
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inlet.connections.discard(self)

    def drop(self) -> None:
        self._transport.abort()
