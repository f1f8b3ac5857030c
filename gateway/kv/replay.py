"""One replay: a question to the socket where a publisher keeps its last messages, and the answers to its end.

The question is `[empty, first number wanted]`.  An answer is `[empty, number, message]` or, of vLLM from 0.26
on and of SGLang, `[empty, topic, number, message]`; the last has the number -1.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import zmq

from gateway.kv.subscription import Frames, Subscription

SILENT_S: Final = 5.0
"""After so long without an answer it is over."""
_END: Final = b"\xff" * 8
_NUMBER_BYTES: Final = 8
# The answers come in one burst, and a publisher drops what does not fit its own queue: they are all taken in.
_WAITING: Final = 1 << 14


class Replay:
    """Asks at once.  `came(number, payload)` for each message, then `ended(whole)` once, however it ends."""

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        endpoint: str,
        start: int,
        came: Callable[[int, bytes], None],
        ended: Callable[[bool], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._came = came
        self._ended: Callable[[bool], None] | None = ended
        self._last_s = self._loop.time()
        self._socket = Subscription(context, zmq.DEALER, self._heard, failed, waiting=_WAITING)
        self._timer = self._loop.call_later(SILENT_S, self._look)
        self._socket.connect(endpoint)
        self._socket.send([b"", start.to_bytes(_NUMBER_BYTES, "big")])

    def close(self) -> None:
        """Hear no more of it."""
        self._end(whole=False)

    def _heard(self, frames: Frames) -> None:
        if self._ended is None:
            return
        self._last_s = self._loop.time()
        *_topic, number, payload = frames[1:] if len(frames) in (3, 4) else (b"", b"", b"")
        if number == _END:
            self._end(whole=True)
        elif len(number) == _NUMBER_BYTES:
            self._came(int.from_bytes(number, "big"), payload)

    def _look(self) -> None:
        left_s = self._last_s + SILENT_S - self._loop.time()
        if left_s <= 0:
            self._end(whole=False)
        else:
            self._timer = self._loop.call_later(left_s, self._look)

    def _end(self, *, whole: bool) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            self._timer.cancel()
            self._socket.close()
            ended(whole)
