"""How a worker hears that it is its turn: a datagram from another worker, and a look every few milliseconds.

The look goes on only while something waits; a datagram that is lost costs at most one such pause.
"""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns

LOOK_S = 0.01
_RING_BYTES = 16


class WorkerBell:
    """One worker's end.  `poll(at_ns)` looks whose turn it is and gives how many still wait here."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, run_dir: Path, worker: int, poll: Callable[[int], int]
    ) -> None:
        """Hear from now on.  A socket that a dead worker of this number left is replaced."""
        self._loop = loop
        self._run_dir = run_dir
        self._poll = poll
        self._timer: asyncio.TimerHandle | None = None
        self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._in = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        path = _path(run_dir, worker)
        path.unlink(missing_ok=True)
        self._in.bind(str(path))
        loop.add_reader(self._in.fileno(), self._heard)
        self.unheard = 0  # rings that reached nobody; their worker looks by itself

    def ring(self, worker: int) -> None:
        """Tell another worker to look."""
        try:
            self._out.sendto(b".", str(_path(self._run_dir, worker)))
        except OSError:  # not there yet or any more, or has not listened for long
            self.unheard += 1

    def waits(self) -> None:
        """Look every `LOOK_S` from now on, until nothing waits here."""
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def close(self) -> None:
        """Hear nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._in.fileno())
        self._in.close()
        self._out.close()

    def _heard(self) -> None:
        try:
            while self._in.recv(_RING_BYTES):
                pass
        except BlockingIOError:
            pass
        self._poll(monotonic_ns())

    def _look(self) -> None:
        self._timer = None
        if self._poll(monotonic_ns()):
            self.waits()


def _path(run_dir: Path, worker: int) -> Path:
    return run_dir / f"turn-{worker}.sock"
