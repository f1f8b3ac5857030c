"""One publisher as it is listened to: its socket, its replays, and what is known of it."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic_ns
from typing import Any, Final

import zmq

from gateway.kv.replay import Replay
from gateway.kv.sources import Source
from gateway.kv.subscription import Frames, Subscription
from routing.events.board import State
from routing.events.book import Book
from routing.events.decode import TIERS
from routing.events.load import load
from routing.events.publisher import Publisher

_NUMBER_BYTES: Final = 8
# A replay asked for at once would end before the subscription has begun at the other side.
_SETTLE_S: Final = 0.2
_RETRY_FIRST_S: Final = 10.0
_RETRY_MOST_S: Final = 300.0
_AUDIT_S: Final = 30.0
"""After so long without a word it is asked whether it is still the same, and nothing was missed."""


class Heard:
    """A publisher's row in the book.  Messages come through `take`, whoever reads the socket."""

    def __init__(
        self,
        book: Book,
        engine: int,
        source: Source,
        most_blocks: int,
        context: "zmq.Context[zmq.Socket[bytes]]",
        failed: Callable[[Exception], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._book = book
        self._context = context
        self._failed = failed
        self._marked = book.open(engine, source.rank)
        self.engine = engine
        self.source = source
        self.publisher = Publisher(
            self._marked, can_replay=source.replay is not None, most_blocks=most_blocks
        )
        self.is_linked = False
        self.on_lost: Callable[[], None] = lambda: None
        self.lag_s: float | None = None
        """How long ago its last message was written, by its clock and ours, when it came."""
        self._heard_s = self._loop.time()
        self._retry_s, self._retry_at_s = _RETRY_FIRST_S, 0.0
        self._replay: Replay | None = None
        self._sockets: list[Subscription] = []
        self._closed = False

    def listen(self) -> None:
        """Connect to where it publishes and tells of its load.  Raises zmq.ZMQError where that cannot be."""
        events = Subscription(self._context, zmq.SUB, self.take, self._failed, self.linked)
        self._sockets.append(events)
        events.connect(self.source.publish)
        if self.source.load is not None:
            loads = Subscription(self._context, zmq.SUB, self._take_load, self._failed)
            self._sockets.append(loads)
            loads.connect(self.source.load)

    def linked(self, up: bool) -> None:
        """A connection was made, or is gone."""
        self.is_linked = up
        if up:
            self.publisher.connected()
            self._loop.call_later(_SETTLE_S, self._pump)
        else:
            self.on_lost()

    def take(self, frames: Frames) -> None:
        """A message came."""
        if len(frames) != 3 or len(frames[1]) != _NUMBER_BYTES:
            self.publisher.ignored["frames"] += 1
            return
        topic, number, payload = frames
        if not topic.startswith(self.source.topic.encode()):
            self.publisher.ignored["topic"] += 1
            return
        self._heard_s = self._loop.time()
        self.publisher.heard(int.from_bytes(number, "big"), payload)
        if self.publisher.ts_s is not None:
            self.lag_s = max(0.0, datetime.now(UTC).timestamp() - self.publisher.ts_s)
        self._pump()

    def look(self) -> None:
        """What is looked after about once a second."""
        now_s, publisher = self._loop.time(), self.publisher
        if publisher.replay_failed and self._replay is None and self.is_linked:
            if now_s >= self._retry_at_s:
                self._retry_at_s = now_s + self._retry_s
                self._retry_s = min(_RETRY_MOST_S, 2 * self._retry_s)
                publisher.retry()
        elif publisher.state is State.EXACT:
            self._retry_s = _RETRY_FIRST_S
            if now_s - self._heard_s >= _AUDIT_S and self.is_linked:
                self._heard_s = now_s
                publisher.audit()
        self._pump()

    def close(self) -> None:
        """Listen no more, and forget all it said."""
        self._closed = True
        for socket in self._sockets:
            socket.close()
        if self._replay is not None:
            self._replay.close()
        self.publisher.forget()
        self._book.close(self._marked)

    def status(self) -> dict[str, Any]:
        """For the admin page."""
        publisher = self.publisher
        return {
            "rank": self.source.rank,
            "endpoint": self.source.publish,
            "replay": self.source.replay,
            "connected": self.is_linked,
            "state": publisher.state.name,
            "why": publisher.why if publisher.state is State.DEGRADED else "",
            "blocks": publisher.held,
            "blocks_below": {TIERS[tier]: held for tier, held in publisher.held_below.items()},
            "block_size": self._marked.row().block_size,
            "number": publisher.number,
            "lag_s": None if self.lag_s is None else round(self.lag_s, 3),
            "counts": dict(sorted(publisher.counts.items())),
            "ignored": dict(sorted(publisher.ignored.items())),
        }

    def _pump(self) -> None:
        """Ask for what the publisher's state wants, one replay after the other."""
        start = self.publisher.wanted
        if start is None or self._replay is not None or self._closed or self.source.replay is None:
            return
        self.publisher.wanted = None
        try:
            self._replay = Replay(
                self._context,
                self.source.replay,
                start,
                self.publisher.replayed,
                self._replayed,
                self._failed,
            )
        except zmq.ZMQError as error:
            self._failed(error)
            self._replayed(False)

    def _replayed(self, whole: bool) -> None:
        self._replay = None
        if not self._closed:
            if not whole:
                self._retry_at_s = self._loop.time() + self._retry_s
            self.publisher.replay_ended(whole=whole)
            self._loop.call_soon(self._pump)

    def _take_load(self, frames: Frames) -> None:
        said = load(frames[-1], monotonic_ns()) if len(frames) == 3 else None
        if said is None:
            self.publisher.ignored["load"] += 1
        else:
            self._marked.say_load(said)
