"""How lines get out of a worker without its loop ever waiting for whoever reads them."""

import asyncio
import os
from collections.abc import Sequence

# What a pipe takes as a whole: lines of several workers do not mix.
_AT_ONCE_BYTES = 4096


class LineWriter:
    """Writes to a file descriptor in a thread of the loop's executor, one batch at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        self._loop = loop
        self._fd = fd
        self._under_way: asyncio.Future[None] | None = None

    @property
    def is_busy(self) -> bool:
        """The last batch is not written yet: whoever reads the log does not keep up."""
        return self._under_way is not None and not self._under_way.done()

    def write(self, lines: Sequence[bytes]) -> None:
        """Have these written.  Not to be called while busy."""
        if lines:
            self._under_way = self._loop.run_in_executor(None, write_lines, self._fd, lines)

    async def finish(self, within_s: float) -> None:
        """Wait for the batch under way, but not for ever."""
        if self._under_way is not None:
            await asyncio.wait([self._under_way], timeout=within_s)


def write_lines(fd: int, lines: Sequence[bytes]) -> None:
    """Write whole lines, as many at once as a pipe takes whole.  A descriptor nobody reads is given up."""
    batch = b""
    try:
        for line in lines:
            if batch and len(batch) + len(line) >= _AT_ONCE_BYTES:
                _write(fd, batch)
                batch = b""
            batch += line + b"\n"
        _write(fd, batch)
    except OSError:
        pass  # standard error is closed: there is nowhere to say so


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
