"""The lock that workers share: in their common memory, let go by the kernel when its holder dies.

A robust, process-shared mutex of POSIX threads costs no call into the kernel while nobody else wants it:
0.2 us for both steps, where a lock on the file takes 0.8.  Where the C library has none, it is the file's.
"""

import ctypes
import errno
import fcntl
import mmap
import os
from typing import Any, Final, Protocol

MUTEX_BYTES: Final = 64  # at least sizeof(pthread_mutex_t): 40 on x86-64, 48 on arm64
_TRIES: Final = 2000


class Lock(Protocol):
    """Keeps other workers out.

    A holder that does not run (stopped, or no core for it) stops nobody: after some milliseconds the others
    go on without, at the risk of one request too many, and `missed` counts it.
    """

    missed: int

    def lock(self) -> None: ...

    def unlock(self) -> None: ...

    def close(self) -> None: ...


def has_mutex() -> bool:
    """Whether this system's C library has such a mutex."""
    return _calls() is not None


def of(memory: mmap.mmap, at: int, fd: int, *, is_mutex: bool, is_new: bool) -> Lock:
    """The lock of a mapped file: the mutex in its cell `at`, made there when it `is_new`, or its own."""
    return Mutex(_calls(), memory, at, is_new=is_new) if is_mutex else FileLock(fd)


class NoLock:
    """For one worker, which nobody disturbs."""

    missed = 0

    def lock(self) -> None: ...

    def unlock(self) -> None: ...

    def close(self) -> None: ...


class FileLock:
    """A lock on the open file."""

    __slots__ = ("_fd", "_is_without", "missed")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._is_without = False
        self.missed = 0

    def lock(self) -> None:
        for _ in range(_TRIES):
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                os.sched_yield()
        self._is_without = True
        self.missed += 1

    def unlock(self) -> None:
        if self._is_without:
            self._is_without = False
        else:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None: ...


class Mutex:
    """A mutex in shared memory.  It belongs to a thread: the same must lock and unlock."""

    __slots__ = ("_cell", "_consistent", "_is_without", "_try", "_unlock", "missed")

    def __init__(self, calls: Any, memory: mmap.mmap, at: int, *, is_new: bool) -> None:
        self._cell = (ctypes.c_char * MUTEX_BYTES).from_buffer(memory, at)
        self._try = calls.pthread_mutex_trylock
        self._unlock = calls.pthread_mutex_unlock
        self._consistent = calls.pthread_mutex_consistent
        self._is_without = False
        self.missed = 0
        if is_new:
            attributes = (ctypes.c_char * MUTEX_BYTES)()
            calls.pthread_mutexattr_init(attributes)
            calls.pthread_mutexattr_setpshared(attributes, _PROCESS_SHARED)
            calls.pthread_mutexattr_setrobust(attributes, _ROBUST)
            calls.pthread_mutex_init(self._cell, attributes)
            calls.pthread_mutexattr_destroy(attributes)

    def lock(self) -> None:
        if result := self._try(self._cell):
            self._wait(result)

    def _wait(self, result: int) -> None:
        """It was not had at once."""
        for _ in range(_TRIES):
            if result == errno.EOWNERDEAD:  # and it is ours now; what its last holder left undone was its own
                self._consistent(self._cell)
                return
            if result != errno.EBUSY:
                break
            os.sched_yield()
            result = self._try(self._cell)
            if not result:
                return
        self._is_without = True
        self.missed += 1

    def unlock(self) -> None:
        if self._is_without:
            self._is_without = False
        else:
            self._unlock(self._cell)

    def close(self) -> None:
        """Let go of the memory, which cannot be unmapped before."""
        del self._cell


_PROCESS_SHARED: Final = 1
_ROBUST: Final = 1
_ONE: Final = (
    "pthread_mutexattr_init", "pthread_mutexattr_destroy", "pthread_mutex_trylock", "pthread_mutex_unlock",
    "pthread_mutex_consistent",
)  # fmt: skip
_TWO: Final = ("pthread_mutexattr_setpshared", "pthread_mutexattr_setrobust", "pthread_mutex_init")


def _calls() -> Any:
    """The C library's calls, none of which blocks; None where one is not there."""
    try:
        library = ctypes.PyDLL(None)
        for name in _ONE:
            getattr(library, name).argtypes = [ctypes.c_void_p]
        for name in _TWO[:2]:
            getattr(library, name).argtypes = [ctypes.c_void_p, ctypes.c_int]
        library.pthread_mutex_init.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    except (AttributeError, OSError):
        return None
    return library
