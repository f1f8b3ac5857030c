"""The shadow process's end of the lane: a unix socket for any number of workers, each read for itself."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from typing import cast

import msgpack

from mirror.frames import Copy, Frame, MalformedFrame, Missed, read_frame
from mirror.lane import pack_taken

_SLACK_BYTES = 1 << 20  # headers and field names beside the largest body
_UNREAD_BYTES = 64 << 10


class Inlet:
    """Listens at `path`, gives every frame to `took`, and closes any one stream that is not frames."""

    def __init__(self, path: str, frame_bytes: int, took: Callable[[Frame], None]) -> None:
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

    async def end(self, within_s: float = 1.0) -> None:
        """Take nothing more, tell the workers what was taken, and let them go once they have read it."""
        for worker in self.connections:
            worker.end()
        try:
            async with asyncio.timeout(within_s):
                while self.connections:  # noqa: ASYNC110 - at the end, for as long as workers take to read
                    await asyncio.sleep(0.01)
        except TimeoutError:
            pass
        self.close()

    def confirm(self) -> None:
        """Tell every worker what was taken from it: together with the books, for what is not in books that
        were told is lost when this process dies, and the workers count it then."""
        for worker in self.connections:
            worker.confirm()

    def tell(self, frame: bytes) -> None:
        """Say something to every worker that reads."""
        for worker in self.connections:
            worker.tell(frame)

    def took(self, frame: object) -> Frame:
        """Check one object and pass it on.  Raises MalformedFrame."""
        read = read_frame(frame)
        self._took(read)
        return read


class _Worker(asyncio.Protocol):
    """One worker's connection."""

    _transport: asyncio.Transport

    def __init__(self, inlet: Inlet) -> None:
        self._inlet = inlet
        self._unpacker = msgpack.Unpacker(max_buffer_size=inlet.buffer_bytes)
        self._copies: Counter[str] = Counter()
        self._missed: dict[str, Counter[str]] = {}
        self._told = 0
        self._counted = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._inlet.connections.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._unpacker.feed(data)
            for frame in self._unpacker:
                self._count(self._inlet.took(frame))
        except (MalformedFrame, msgpack.UnpackException, ValueError):
            # Framing is lost: whatever follows could be read as anything.
            self._inlet.malformed += 1
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inlet.connections.discard(self)

    def _count(self, frame: Frame) -> None:
        if isinstance(frame, Copy):
            self._copies[frame.experiment] += 1
        elif isinstance(frame, Missed):
            self._missed.setdefault(frame.experiment, Counter())[frame.reason] += frame.n
        else:
            return
        self._counted += 1

    def confirm(self) -> None:
        """Say what was taken, where that is news; a worker that reads nothing is told nothing more."""
        if self._told == self._counted or self._transport.get_write_buffer_size() > _UNREAD_BYTES:
            return
        self._told = self._counted
        names = self._copies.keys() | self._missed.keys()
        self._transport.write(
            pack_taken({name: (self._copies[name], self._missed.get(name, {})) for name in names})
        )

    def tell(self, frame: bytes) -> None:
        """Say something; a worker that reads nothing is told nothing more."""
        if self._transport.get_write_buffer_size() <= _UNREAD_BYTES:
            self._transport.write(frame)

    def end(self) -> None:
        """Read no more, say what was taken, and that this was all."""
        self._transport.pause_reading()
        self.confirm()
        self._transport.write_eof()

    def drop(self) -> None:
        self._transport.abort()
