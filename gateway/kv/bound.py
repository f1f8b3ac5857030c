"""Engines that connect to publish: which of them is speaking, on an address where anybody may?

They are told apart by the topic, which names the engine's host, or host and port, between @ signs, as llm-d
has its engines do: `kv@10.0.0.5@llama`.  What names no engine of ours is dropped and counted.  Several come
over one address, so that a connection that is lost cannot be told to be one's: a restart shows by its
numbers.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import zmq

from gateway.kv.sources import Source, host_of, replay_of
from gateway.kv.spec import KvEngine
from gateway.kv.subscription import Frames, Subscription
from routing.events.decode import Undecodable, decode

if TYPE_CHECKING:
    from gateway.kv.feed import Followed

_MOST_TOPICS = 4096


class Bound:
    """One address.  Raises zmq.ZMQError when it cannot be bound."""

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        endpoint: str,
        failed: Callable[[Exception], None],
    ) -> None:
        self.ignored: Counter[str] = Counter()
        self._by_name: dict[str, Followed | None] = {}
        self._by_topic: dict[bytes, Followed | None] = {}
        self._socket = Subscription(context, zmq.SUB, self._heard, failed, waiting=256)
        try:
            self.endpoint = self._socket.bind(endpoint)
        except zmq.ZMQError:
            self._socket.close()
            raise

    def renew(self, followed: Mapping[KvEngine, "Followed"]) -> None:
        """These engines are expected here from now on."""
        self._by_name = {}
        self._by_topic = {}
        for engine, one in followed.items():
            for name in {host_of(engine.url).strip("[]"), urlsplit(engine.url).netloc}:
                self._by_name[name] = None if name in self._by_name else one  # a host of several: by its port

    def close(self) -> None:
        """Hear no more."""
        self._socket.close()

    def _heard(self, frames: Frames) -> None:
        if len(frames) != 3:
            self.ignored["frames"] += 1
            return
        followed = self._who(frames[0])
        if followed is None:
            self.ignored["unknown_engine"] += 1
            return
        rank = self._rank(followed, frames[2])
        if rank is None:
            self.ignored["unknown_rank"] += 1
            return
        heard = followed.heard.get(rank)
        if heard is None:
            engine = followed.engine
            replay = replay_of(engine.events, host_of(engine.url), rank)
            heard = followed.open(Source(rank, self.endpoint, replay, engine.events.topic), listen=False)
        if heard is not None:
            heard.is_linked = True
            heard.take(frames)

    def _who(self, topic: bytes) -> "Followed | None":
        if topic not in self._by_topic:
            if len(self._by_topic) >= _MOST_TOPICS:  # anybody may send any
                self._by_topic.clear()
            words = topic.decode("utf-8", "replace").split("@")
            found = [one for word in words if (one := self._by_name.get(word)) is not None]
            self._by_topic[topic] = found[0] if len(set(map(id, found))) == 1 else None
        return self._by_topic[topic]

    def _rank(self, followed: "Followed", payload: bytes) -> int | None:
        ranks = followed.engine.events.ranks
        if ranks == 1:
            return 0
        try:
            rank = decode(payload).rank or 0
        except Undecodable:
            return None
        return rank if 0 <= rank < ranks else None
