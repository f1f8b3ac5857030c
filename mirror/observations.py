"""The shadow process's line to the analysis process: bounded, reconnecting, and never waited for."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import msgpack

from wire.tasks import Tasks

_READ_BYTES = 1 << 16
_HEARD_BYTES = 1 << 20
_TRIES = 2


class Observations:
    """Sends frames to the unix socket at `path`, and tells what comes back.

    `offer` never waits; once `limit_bytes` are queued it refuses.  A frame stays queued until the socket
    has taken it whole: one cut by a broken line is sent again on the next, but one that broke two lines is
    given up and counted in `lost`.  `heard(frame)` is called for every object that comes back; a ValueError
    it raises ends the line, and a new one is made.
    """

    def __init__(self, path: str, limit_bytes: int, heard: Callable[[Any], None]) -> None:
        self._path = path
        self._limit = limit_bytes
        self._heard = heard
        self._queue: deque[bytes] = deque()
        self._fresh = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self.queued_bytes = 0
        self.connected = False
        self.connects = 0
        self.lost = 0
        self._tries = 0

    def offer(self, frame: bytes) -> bool:
        """Queue a frame; False when there is no room, and the frame is the caller's to count."""
        if self.queued_bytes + len(frame) > self._limit:
            return False
        self._queue.append(frame)
        self.queued_bytes += len(frame)
        self._empty.clear()
        self._fresh.set()
        return True

    async def run(self) -> None:
        """Keep the line up until cancelled."""
        pause_s = 0.05
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(self._path)
            except OSError:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, 1.0)
                continue
            self.connected = True
            self.connects += 1
            # With no buffer of its own, `drain` returns once the socket has taken everything.
            writer.transport.set_write_buffer_limits(high=0)
            try:
                await self._both(reader, writer)
            except (OSError, ValueError, msgpack.UnpackException):
                pass  # broken, or not what was agreed: begin anew
            finally:
                self.connected = False
                writer.transport.abort()
            pause_s = 0.05
            await asyncio.sleep(pause_s)

    async def flushed(self) -> None:
        """Return once the socket has taken everything accepted."""
        await self._empty.wait()

    async def _both(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Write and read until one of them fails; raises how.

        No task group: one that fails in the very turn in which this is cancelled would hide that.
        """
        line = Tasks(lambda _name, _error: None)
        ways = [
            line.spawn(self._write(writer), name="write"),
            line.spawn(self._read(reader), name="read"),
        ]
        try:
            ended, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await line.cancel()
        for way in ended:
            way.result()

    async def _write(self, writer: asyncio.StreamWriter) -> None:
        while True:
            while self._queue:
                if self._tries < _TRIES:
                    self._tries += 1
                    writer.write(self._queue[0])
                    await writer.drain()
                else:
                    self.lost += 1
                self.queued_bytes -= len(self._queue.popleft())
                self._tries = 0
            self._empty.set()
            self._fresh.clear()
            await self._fresh.wait()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        unpacker = msgpack.Unpacker(max_buffer_size=_HEARD_BYTES)
        while data := await reader.read(_READ_BYTES):
            unpacker.feed(data)
            for frame in unpacker:
                self._heard(frame)
        raise ConnectionResetError("the analysis process closed the line")
