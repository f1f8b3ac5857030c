"""How the workers know one another's load: one shared memory file, one row per worker, one writer per row.

Row of a worker: for each engine `inflight` (requests sent and not ended), `pending_bytes` (uncached prompt
bytes sent and not yet answered by a first token), `awaiting` (requests with any of those) and `context_bytes`
(prompt bytes of all in flight).  Cells are aligned 64-bit integers: a reader never sees half of one; it may
see one worker's cells a moment apart, which a routing decision can bear.  The table is wider than there are
engines: those that a reload adds find a free column (`columns` says which).  What the workers learn of the
engines' speed stands behind it (`rates`), then what they chose (`choices`).
"""

import mmap
import os
import struct
from pathlib import Path

from gateway.fleets.choices import RING_WORDS, Choices
from gateway.fleets.rates import CELLS as RATE_CELLS
from gateway.fleets.rates import RateTable

_MAGIC = 0x53_4C_4C_4F_41_44_32  # "SLLOAD2"
_HEADER = struct.Struct("<qqq")  # magic, workers, engines
_CELLS = 4
_BYTES = 8
_RING = 1 + RING_WORDS


class LoadRow:
    """The one worker's row that its holder may write."""

    __slots__ = ("_cells", "choices", "worker")

    def __init__(self, cells: memoryview, worker: int, choices: Choices) -> None:
        self._cells = cells
        self.worker = worker
        self.choices = choices

    def add(
        self, engine: int, inflight: int, pending_bytes: int, awaiting: int = 0, context_bytes: int = 0
    ) -> None:
        """Change the load this worker has on `engine`; negative numbers release.  Unknown: IndexError."""
        at = engine * _CELLS
        cells = self._cells
        cells[at] += inflight
        cells[at + 1] += pending_bytes
        cells[at + 2] += awaiting
        cells[at + 3] += context_bytes

    def load(self, engine: int) -> tuple[int, ...]:
        """This worker's own cells of `engine`."""
        at = engine * _CELLS
        return tuple(self._cells[at : at + _CELLS])


class LoadTable:
    """The load of every engine, summed over all workers."""

    def __init__(self, memory: mmap.mmap, workers: int, engines: int) -> None:
        """Use `create` or `open`."""
        self.workers = workers
        self.engines = engines
        self._memory = memory
        self._bytes = memoryview(memory)
        width = engines * _CELLS
        end = _HEADER.size + workers * width * _BYTES
        cells = self._bytes[_HEADER.size : end].cast("q")
        self._rows = [cells[w * width : (w + 1) * width] for w in range(workers)]
        cells.release()
        rings = end + workers * engines * RATE_CELLS * _BYTES
        self.rates = RateTable(self._bytes[end:rings].cast("d"), workers, engines)
        words = self._bytes[rings:].cast("Q")
        self._rings = [words[w * _RING : (w + 1) * _RING] for w in range(workers)]
        words.release()

    @classmethod
    def create(cls, path: str | os.PathLike[str], workers: int, engines: int) -> "LoadTable":
        """A new table of zeros at `path`, readable by this user only.  It replaces one that is there."""
        if workers < 1 or engines < 0:
            raise ValueError(f"a load table needs a worker and no negative engines: {workers} x {engines}")
        size = _size(workers, engines)
        Path(path).unlink(missing_ok=True)  # a process that still maps the old one keeps the old one
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(fd, size)
            os.pwrite(fd, _HEADER.pack(_MAGIC, workers, engines), 0)
            return cls(mmap.mmap(fd, size), workers, engines)
        finally:
            os.close(fd)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "LoadTable":
        """The table another process created.  ValueError when the file is no load table or was cut short."""
        fd = os.open(path, os.O_RDWR)
        try:
            header = os.pread(fd, _HEADER.size, 0)
            if len(header) < _HEADER.size:
                raise ValueError(f"{os.fspath(path)} is no load table")
            magic, workers, engines = _HEADER.unpack(header)
            size = os.fstat(fd).st_size
            if magic != _MAGIC or size != _size(workers, engines):
                raise ValueError(f"{os.fspath(path)} is no load table")
            return cls(mmap.mmap(fd, size), workers, engines)
        finally:
            os.close(fd)

    def row(self, worker: int) -> LoadRow:
        """The row of `worker`, to be written by that worker's process only."""
        return LoadRow(self._rows[worker], worker, Choices(self._rings, worker))

    def totals(self, engine: int) -> tuple[int, ...]:
        """`LoadRow.load` of `engine` over all workers, never below zero.

        A row can be negative only when it was zeroed while its process still lived; what that process then
        releases must not hide the load of the others, so it is the sum that is cut at zero.
        """
        return self.span(engine, engine + 1)[0]

    def span(self, start: int, end: int) -> list[tuple[int, ...]]:
        """`totals` of the engines from `start` up to `end`."""
        parts = [row[start * _CELLS : end * _CELLS].tolist() for row in self._rows]
        sums = parts[0] if len(parts) == 1 else [sum(cells) for cells in zip(*parts, strict=True)]
        if min(sums) < 0:
            sums = [max(0, one) for one in sums]
        return list(zip(*[iter(sums)] * _CELLS, strict=True))

    def is_empty(self, engine: int) -> bool:
        """Whether no worker has anything there: another engine may have the column."""
        at = engine * _CELLS
        return not any(any(row[at : at + _CELLS]) for row in self._rows)

    def zero(self, worker: int) -> None:
        """Forget what a dead worker was doing, lest it weigh for ever; what it learned stays."""
        row = self._rows[worker]
        for at in range(len(row)):
            row[at] = 0

    def close(self) -> None:
        """Unmap.  Rows handed out before are dead afterwards (ValueError on use)."""
        for view in (*self._rows, *self._rings):
            view.release()
        self.rates.release()
        self._bytes.release()
        self._memory.close()


def _size(workers: int, engines: int) -> int:
    return _HEADER.size + workers * (engines * (_CELLS + RATE_CELLS) + _RING) * _BYTES
