"""How observations arrive: msgpack frames from several peers on a unix socket, into a bounded queue."""

import asyncio
import os
import stat
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgpack

FRAME_BYTES = 64 << 20
_UNREAD_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it came: its kind, body, size on the wire, and who sent it."""

    kind: str
    body: Mapping[str, Any]
    size_bytes: int
    peer: "Peer"


class Inbox:
    """Frames in the order they came, at most `max_frames` and about `max_bytes` of them.

    When it is full a new pair is dropped and counted; statuses and books never wait here for room: they are
    small, and the newest replaces the one before, so a full inbox still takes `max_frames` of those on top.
    """

    def __init__(self, *, max_frames: int = 4096, max_bytes: int = 256 << 20) -> None:
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._more = asyncio.Event()
        self.counts: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.peers: set[Peer] = set()

    @property
    def waiting(self) -> int:
        """Frames not yet taken."""
        return len(self._frames)

    @property
    def waiting_bytes(self) -> int:
        """Their size on the wire."""
        return self._bytes

    def offer(self, frame: Frame) -> bool:
        """Queue a frame; False when there is no room for it."""
        room = self._max_frames if frame.kind == "pair" else 2 * self._max_frames
        full = len(self._frames) >= room
        if full or (
            frame.kind == "pair" and self._frames and self._bytes + frame.size_bytes > self._max_bytes
        ):
            self.dropped["inbox_full"] += 1
            return False
        self._frames.append(frame)
        self._bytes += frame.size_bytes
        self._more.set()
        return True

    async def take(self) -> list[Frame]:
        """All frames that wait; at least one."""
        await self._more.wait()
        self._more.clear()
        return self.take_now()

    def take_now(self) -> list[Frame]:
        """All frames that wait, perhaps none."""
        frames = list(self._frames)
        self._frames.clear()
        self._bytes = 0
        return frames

    def tell(self, message: list[Any]) -> None:
        """Send a message to every peer."""
        packed: bytes = msgpack.packb(message)
        for peer in list(self.peers):
            peer.tell(packed)


class Peer(asyncio.Protocol):
    """One connection: bytes in, frames out. A malformed frame ends it, and only it."""

    def __init__(
        self, inbox: Inbox, greet: Callable[["Peer"], None], take: Callable[[Frame], None], frame_bytes: int
    ) -> None:
        self._inbox = inbox
        self._greet = greet
        self._take = take
        self._unpacker = msgpack.Unpacker(max_buffer_size=frame_bytes)
        self._transport: asyncio.WriteTransport | None = None
        self._at = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is none by inheritance
        self._inbox.peers.add(self)
        self._greet(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._inbox.peers.discard(self)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        try:
            self._unpacker.feed(data)
            for frame in self._unpacker:
                end = self._unpacker.tell()
                size_bytes, self._at = end - self._at, end
                if not (isinstance(frame, list) and len(frame) == 2 and isinstance(frame[0], str)):
                    raise ValueError("a frame is [kind, map]")
                if not isinstance(frame[1], dict):
                    raise ValueError("a frame is [kind, map]")
                self._take(Frame(frame[0], frame[1], size_bytes, self))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, msgpack.UnpackException):
            # msgpack's own (too large, too deep, not UTF-8, not msgpack) are ValueErrors or UnpackExceptions
            self.malformed()

    def malformed(self) -> None:
        """A frame was not what it should be: nothing after it can be trusted, so the connection ends."""
        self._inbox.dropped["malformed"] += 1
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()

    def tell(self, packed: bytes) -> None:
        """Send bytes; a peer that does not read is cut off rather than buffered for."""
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(packed)
        if self._transport.get_write_buffer_size() > _UNREAD_BYTES:
            self._transport.abort()


async def listen(
    path: Path,
    inbox: Inbox,
    greet: Callable[[Peer], None],
    take: Callable[[Frame], None],
    *,
    frame_bytes: int = FRAME_BYTES,
) -> asyncio.AbstractServer:
    """Accept peers on a unix socket at `path`, which only this user may use; a stale one is replaced."""
    _make_room(path)
    server = await asyncio.get_running_loop().create_unix_server(
        lambda: Peer(inbox, greet, take, frame_bytes), str(path)
    )
    os.chmod(path, 0o600)
    return server


def _make_room(path: Path) -> None:
    try:
        if stat.S_ISSOCK(path.stat().st_mode):
            path.unlink()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
