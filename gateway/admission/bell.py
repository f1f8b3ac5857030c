"""How a worker hears that it is its turn: a datagram from another worker, and a look every few milliseconds.

The look goes on only while something waits; a datagram that is lost costs at most one such pause.
"""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns

LOOK_S = 0.01


class WorkerBell(asyncio.DatagramProtocol):
    """One worker's end.  `poll(at_ns)` looks whose turn it is and gives how many still wait here."""

    def __init__(self, loop: asyncio.AbstractEventLoop, run_dir: Path, worker: int) -> None:
        self._loop = loop
        self._run_dir = run_dir
        self._worker = worker
        self._poll: Callable[[int], int] = lambda _at_ns: 0
        self._timer: asyncio.TimerHandle | None = None
        self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._out.setblocking(False)
        self._transport: asyncio.BaseTransport | None = None
        self.unheard = 0  # rings that reached nobody; their worker looks by itself

    async def hang(self, poll: Callable[[int], int]) -> None:
        """Begin to hear.  A socket that a dead worker of this number left is replaced."""
        self._poll = poll
        path = _path(self._run_dir, self._worker)
        path.unlink(missing_ok=True)
        heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        heard.setblocking(False)
        heard.bind(str(path))
        self._transport, _ = await self._loop.create_datagram_endpoint(lambda: self, sock=heard)

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

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._poll(monotonic_ns())

    def _look(self) -> None:
        self._timer = None
        if self._poll(monotonic_ns()):
            self.waits()

    def close(self) -> None:
        """Hear nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close()
        self._out.close()


def _path(run_dir: Path, worker: int) -> Path:
    return run_dir / f"turn-{worker}.sock"
