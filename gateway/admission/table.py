"""How the limits hold over all workers: one shared memory file with counters, and a lock that never stalls.

What the requests of a worker hold (its leases) is in cells with a column for each worker, which it alone
writes, and is read as a sum.  The supervisor zeroes a dead worker's column, and all it held is free again.
Cells that every worker writes (buckets, fair shares, turns) are written under the lock only.
"""

import fcntl
import mmap
import os
import struct
from pathlib import Path

_MAGIC = 0x53_4C_41_44_4D_49_31  # "SLADMI1"
_HEADER = struct.Struct("<qqqqq")  # magic, workers, fleets, engines, key slots
_BYTES = 8
CLASSES = 3
_TRIES = 2000


class Table:
    """The shared counters.  Attributes name the first cell of each kind; `at` and `total` take such cells."""

    def __init__(
        self, path: str | os.PathLike[str], memory: mmap.mmap, fd: int, shape: tuple[int, ...]
    ) -> None:
        """Use `create` or `open`."""
        self.workers, self.fleets, self.engines, self.key_slots = shape
        self._memory, self._fd = memory, fd
        self._bytes = memoryview(memory)
        self.cells = self._bytes[_HEADER.size :].cast("q")
        self.lock_missed = 0
        self.path = Path(path)
        keys = self.key_slots + 1  # the last one counts all keys together
        self.all_keys = self.key_slots
        # one column for each worker
        self.inflight = 0  # [key]: requests of a key that run or wait
        self.running = self.inflight + keys  # [fleet]
        self.seats = self.running + self.fleets  # [engine]
        self.waiting = self.seats + self.engines  # [fleet]
        self.waiting_bytes = self.waiting + self.fleets  # [fleet]
        self.head_key = (
            self.waiting_bytes + self.fleets
        )  # [fleet, class]: slot + 1 of whose turn is next here
        self.head_since = self.head_key + self.fleets * CLASSES  # [fleet, class]: since when it waits
        self._leased = self.head_since + self.fleets * CLASSES
        # one for all, as an index into `cells`
        self.buckets = self._leased * self.workers  # [key, requests or tokens]
        self.served = self.buckets + keys * 2  # [fleet, class, key]: what it was given, by its weight
        self.floor = (
            self.served + self.fleets * CLASSES * self.key_slots
        )  # [fleet, class]: of who was served last
        self.turns = self.floor + self.fleets * CLASSES  # [fleet]: how many turns there were
        self.turn_of = self.turns + self.fleets  # [fleet, class]: its last
        self.offered = (
            self.turn_of + self.fleets * CLASSES
        )  # [fleet]: since when a turn is left to another worker

    @staticmethod
    def _size(workers: int, fleets: int, engines: int, key_slots: int) -> int:
        keys, lines = key_slots + 1, fleets * CLASSES
        leased = keys + 3 * fleets + engines + 2 * lines
        shared = 2 * keys + lines * key_slots + 2 * lines + 2 * fleets
        return _HEADER.size + _BYTES * (leased * workers + shared)

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], workers: int, fleets: int, engines: int, key_slots: int
    ) -> "Table":
        """A new table of zeros at `path`, for this user only.  It replaces one that is there."""
        shape = (workers, fleets, engines, key_slots)
        if workers < 1 or min(shape) < 0:
            raise ValueError(f"an admission table needs a worker and no negative sizes: {shape}")
        size = cls._size(*shape)
        Path(path).unlink(missing_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(fd, size)
            os.pwrite(fd, _HEADER.pack(_MAGIC, *shape), 0)
            return cls(path, mmap.mmap(fd, size), fd, shape)
        except BaseException:
            os.close(fd)
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Table":
        """The table another process created.  ValueError when the file is no such table or was cut short."""
        fd = os.open(path, os.O_RDWR)
        try:
            header = os.pread(fd, _HEADER.size, 0)
            if len(header) < _HEADER.size:
                raise ValueError(f"{os.fspath(path)} is no admission table")
            magic, *shape = _HEADER.unpack(header)
            if magic != _MAGIC or min(shape) < 0 or os.fstat(fd).st_size != cls._size(*shape):
                raise ValueError(f"{os.fspath(path)} is no admission table")
            return cls(path, mmap.mmap(fd, os.fstat(fd).st_size), fd, tuple(shape))
        except BaseException:
            os.close(fd)
            raise

    def at(self, cell: int, worker: int) -> int:
        """Where in `cells` a worker's column of `cell` is; that worker alone writes it."""
        return cell * self.workers + worker

    def total(self, cell: int) -> int:
        """A leased cell summed over all workers, never below zero (see `loads.LoadTable.totals`)."""
        start = cell * self.workers
        held: int = self.cells[start] if self.workers == 1 else sum(self.cells[start : start + self.workers])
        return held if held > 0 else 0

    def zero(self, worker: int) -> None:
        """Take back all that a dead worker held.  What it took from rates is spent: engines worked."""
        for at in range(worker, self._leased * self.workers, self.workers):
            self.cells[at] = 0

    def leases(self, worker: int) -> list[int]:
        """All that one worker holds now: zeros when nothing runs or waits."""
        return list(self.cells[worker : self._leased * self.workers : self.workers])

    def lock(self) -> None:
        """Keep other workers from the shared cells; the kernel lets go for one that dies.

        A holder that does not run (stopped, or no core for it) must not stop the others: after a few
        milliseconds they go on without, at the risk of one request too many, and count it.
        """
        if self.workers == 1:
            return
        for _ in range(_TRIES):
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                os.sched_yield()
        self.lock_missed += 1

    def unlock(self) -> None:
        if self.workers > 1:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Unmap."""
        self.cells.release()
        self._bytes.release()
        self._memory.close()
        os.close(self._fd)
