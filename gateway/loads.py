"""How the workers know one another's load: one shared memory file, one row per worker, one writer per row.

Row of a worker: for each engine `inflight` (requests sent and not ended) and `pending_bytes` (prompt bytes
sent and not yet answered by a first token).  Cells are aligned 64-bit integers: a reader never sees half of
one; it may see one worker's two cells a moment apart, which a routing decision can bear.  The table is wider
than there are engines: those that a reload adds find a free column (`gateway.columns` says which).
"""

import mmap
import os
import struct
from pathlib import Path

_MAGIC = 0x53_4C_4C_4F_41_44_31  # "SLLOAD1"
_HEADER = struct.Struct("<qqq")  # magic, workers, engines
_CELLS = 2
_BYTES = 8


class LoadRow:
    """The one worker's row that its holder may write."""

    __slots__ = ("_cells",)

    def __init__(self, cells: memoryview) -> None:
        self._cells = cells

    def add(self, engine: int, inflight: int, pending_bytes: int) -> None:
        """Change the load this worker has on `engine`; negative numbers release.  Unknown: IndexError."""
        at = engine * _CELLS
        cells = self._cells
        cells[at] += inflight
        cells[at + 1] += pending_bytes

    def load(self, engine: int) -> tuple[int, int]:
        """This worker's own (inflight, pending_bytes) on `engine`."""
        at = engine * _CELLS
        return self._cells[at], self._cells[at + 1]


class LoadTable:
    """The load of every engine, summed over all workers."""

    def __init__(self, memory: mmap.mmap, workers: int, engines: int) -> None:
        """Use `create` or `open`."""
        self.workers = workers
        self.engines = engines
        self._memory = memory
        self._bytes = memoryview(memory)
        self._cells = self._bytes[_HEADER.size :].cast("q")
        width = engines * _CELLS
        rows = self._cells[: workers * width]
        self._inflight = [rows[e * _CELLS :: width] for e in range(engines)]
        self._pending = [rows[e * _CELLS + 1 :: width] for e in range(engines)]
        self._rows = [rows[w * width : (w + 1) * width] for w in range(workers)]
        rows.release()

    @classmethod
    def create(cls, path: str | os.PathLike[str], workers: int, engines: int) -> "LoadTable":
        """A new table of zeros at `path`, readable by this user only.  It replaces one that is there."""
        if workers < 1 or engines < 0:
            raise ValueError(f"a load table needs a worker and no negative engines: {workers} x {engines}")
        size = _HEADER.size + workers * engines * _CELLS * _BYTES
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
            if magic != _MAGIC or size != _HEADER.size + workers * engines * _CELLS * _BYTES:
                raise ValueError(f"{os.fspath(path)} is no load table")
            return cls(mmap.mmap(fd, size), workers, engines)
        finally:
            os.close(fd)

    def row(self, worker: int) -> LoadRow:
        """The row of `worker`, to be written by that worker's process only."""
        return LoadRow(self._rows[worker])

    def totals(self, engine: int) -> tuple[int, int]:
        """(inflight, pending_bytes) of `engine` over all workers, never below zero.

        A row can be negative only when it was zeroed while its process still lived; what that process then
        releases must not hide the load of the others, so it is the sum that is cut at zero.
        """
        return max(0, sum(self._inflight[engine])), max(0, sum(self._pending[engine]))

    def is_empty(self, engine: int) -> bool:
        """Whether no worker has anything there: another engine may have the column."""
        return not any(self._inflight[engine]) and not any(self._pending[engine])

    def zero(self, worker: int) -> None:
        """Forget what a dead worker was doing, so that its last requests do not weigh for ever."""
        row = self._rows[worker]
        for at in range(len(row)):
            row[at] = 0

    def close(self) -> None:
        """Unmap.  Rows handed out before are dead afterwards (ValueError on use)."""
        for view in (*self._inflight, *self._pending, *self._rows):
            view.release()
        self._cells.release()
        self._bytes.release()
        self._memory.close()
