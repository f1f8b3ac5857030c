"""How the limits hold over all workers: one shared memory file with counters, and a lock that never stalls.

What the requests of a worker hold (its leases) is in cells with a column for each worker, which it alone
writes, and is read as a sum.  The supervisor zeroes a dead worker's column, and all it held is free again.
Cells that every worker writes (buckets, fair shares, turns) are written under the lock only.
"""

import mmap
import os
import struct
from pathlib import Path

from gateway.admission import lock
from gateway.admission.lock import MUTEX_BYTES

_MAGIC = 0x53_4C_41_44_4D_49_31  # "SLADMI1"
_HEADER = struct.Struct("<qqqqqq16x64x")  # magic, workers, fleets, engines, key slots, has a mutex; its cell
_LOCK_AT = _HEADER.size - MUTEX_BYTES
_BYTES = 8
CLASSES = 3


class Table:
    """The shared counters.  Attributes name the first cell of each kind; `at` and `total` take such cells."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        memory: mmap.mmap,
        fd: int,
        shape: tuple[int, ...],
        *,
        is_mutex: bool,
        is_new: bool,
    ) -> None:
        """Use `create` or `open`."""
        self.workers, self.fleets, self.engines, self.key_slots = shape
        self._memory, self._fd = memory, fd
        self._bytes = memoryview(memory)
        self.cells = self._bytes[_HEADER.size :].cast("q")
        self._lock: lock.Lock = lock.NoLock()
        if self.workers > 1:
            self._lock = lock.of(memory, _LOCK_AT, fd, is_mutex=is_mutex, is_new=is_new)
        # Both keep other workers from the shared cells: see `lock.Lock`.
        self.lock, self.unlock = self._lock.lock, self._lock.unlock
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

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        workers: int,
        fleets: int,
        engines: int,
        key_slots: int,
        *,
        locks_file: bool = False,
    ) -> "Table":
        """A new table of zeros at `path`, for this user only.  It replaces one that is there.

        `locks_file`: as where there is no mutex (see `lock`).
        """
        is_mutex = not locks_file and lock.has_mutex()
        shape = (workers, fleets, engines, key_slots)
        if workers < 1 or min(shape) < 0:
            raise ValueError(f"an admission table needs a worker and no negative sizes: {shape}")
        size = _size(workers, fleets, engines, key_slots)
        Path(path).unlink(missing_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(fd, size)
            os.pwrite(fd, _HEADER.pack(_MAGIC, *shape, is_mutex), 0)
            return cls(path, mmap.mmap(fd, size), fd, shape, is_mutex=is_mutex, is_new=True)
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
            magic, workers, fleets, engines, key_slots, is_mutex = _HEADER.unpack(header)
            shape = (workers, fleets, engines, key_slots)
            is_table = magic == _MAGIC and min(shape) >= 0
            if not is_table or os.fstat(fd).st_size != _size(workers, fleets, engines, key_slots):
                raise ValueError(f"{os.fspath(path)} is no admission table")
            memory = mmap.mmap(fd, os.fstat(fd).st_size)
            return cls(path, memory, fd, shape, is_mutex=bool(is_mutex), is_new=False)
        except BaseException:
            os.close(fd)
            raise

    def at(self, cell: int, worker: int) -> int:
        """Where in `cells` a worker's column of `cell` is; that worker alone writes it."""
        return cell * self.workers + worker

    def total(self, cell: int) -> int:
        """A leased cell summed over all workers, never below zero (see `loads.LoadTable.totals`)."""
        workers, cells = self.workers, self.cells
        at = cell * workers
        held: int
        if workers == 1:
            held = cells[at]
        elif workers == 2:
            held = cells[at] + cells[at + 1]
        elif workers <= 4:  # a slice is dearer
            held = cells[at] + cells[at + 1] + cells[at + 2] + (cells[at + 3] if workers == 4 else 0)
        else:
            held = sum(cells[at : at + workers])
        return held if held > 0 else 0

    def zero(self, worker: int) -> None:
        """Take back all that a dead worker held.  What it took from rates is spent: engines worked."""
        for at in range(worker, self._leased * self.workers, self.workers):
            self.cells[at] = 0

    def leases(self, worker: int) -> list[int]:
        """All that one worker holds now: zeros when nothing runs or waits."""
        return list(self.cells[worker : self._leased * self.workers : self.workers])

    @property
    def lock_missed(self) -> int:
        """How often the lock was not had in time."""
        return self._lock.missed

    def close(self) -> None:
        """Unmap."""
        self._lock.close()
        self.cells.release()
        self._bytes.release()
        self._memory.close()
        os.close(self._fd)


def _size(workers: int, fleets: int, engines: int, key_slots: int) -> int:
    keys, lines = key_slots + 1, fleets * CLASSES
    leased = keys + 3 * fleets + engines + 2 * lines
    shared = 2 * keys + lines * key_slots + 2 * lines + 2 * fleets
    return _HEADER.size + _BYTES * (leased * workers + shared)
