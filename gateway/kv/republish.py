"""Events that can be read only once, told again for others: a PUB socket, and the last of them to replay."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import zmq

from gateway.kv.subscription import Frames, Subscription

_KEPT: Final = 10_000
_KEPT_BYTES: Final = 64 << 20
_END: Final = b"\xff" * 8


class Republisher:
    """Publishes and replays at these addresses, as one rank of vLLM does. Raises zmq.ZMQError."""

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        publish: str,
        replay: str,
        topic: str,
        failed: Callable[[Exception], None],
    ) -> None:
        self._topic = topic.encode()
        self._kept: deque[tuple[bytes, bytes]] = deque(maxlen=_KEPT)
        self._kept_bytes = 0
        self._publisher: zmq.Socket[bytes] = context.socket(zmq.PUB)
        self._publisher.setsockopt(zmq.LINGER, 0)
        self._asked = Subscription(context, zmq.ROUTER, self._replay, failed)
        self._loop = asyncio.get_running_loop()
        try:
            self._publisher.bind(publish)
            self._asked.bind(replay)
        except zmq.ZMQError:
            self.close()
            raise

    def publish(self, number: int, payload: bytes) -> None:
        """Tell it to whoever listens; who is too slow misses it."""
        frame = number.to_bytes(8, "big")
        if len(self._kept) == _KEPT:
            self._kept_bytes -= len(self._kept[0][1])
        self._kept.append((frame, payload))
        self._kept_bytes += len(payload)
        while self._kept_bytes > _KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popleft()[1])
        try:
            self._publisher.send_multipart((self._topic, frame, payload), zmq.DONTWAIT)
        except zmq.ZMQError:
            pass  # nobody can be waited for

    def close(self) -> None:
        """Publish no more."""
        self._publisher.close()
        self._asked.close()

    def _replay(self, frames: Frames) -> None:
        if len(frames) != 3 or len(frames[2]) != 8:
            return
        peer, _, start = frames
        for number, payload in list(self._kept):
            if number >= start:
                self._asked.send([peer, b"", self._topic, number, payload])
        self._asked.send([peer, b"", b"", _END, b""])
