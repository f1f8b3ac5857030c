"""Where are golden answers checked?  On a thread of their own, for a program's tests take seconds."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

from analysis.golden import checked

_MOST_WAITING = 256


class Checking:
    """One check at a time, at most 256 waiting.

    `told(result)` is called on the checking thread, with what `analysis.golden.checked` gives, or with
    the error that came in its place.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="golden")
        self._lock = Lock()
        self._waiting = 0

    def offer(self, frame: Mapping[str, Any], told: Callable[[dict[str, Any] | Exception], None]) -> bool:
        """Have one pair checked; False when too many wait."""
        with self._lock:
            if self._waiting >= _MOST_WAITING:
                return False
            self._waiting += 1

        def check() -> None:
            result: dict[str, Any] | Exception
            try:
                result = checked(frame)
            except Exception as error:  # a bug that one answer shows must not end the others
                result = error
            with self._lock:
                self._waiting -= 1
            told(result)

        self._thread.submit(check)
        return True

    def close(self) -> None:
        """Check nothing more; the one under way ends by itself."""
        self._thread.shutdown(wait=False, cancel_futures=True)
