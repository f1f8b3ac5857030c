"""What are the percentiles of the answers so far?  Of the latest ones, and only where enough were seen."""

from array import array

import numpy as np

FEWEST_FOR_P99 = 1000  # with fewer, no confidence interval of the p99 has an upper end


class Latest:
    """The latest `size` values; their percentiles do not depend on the order in which they came."""

    def __init__(self, size: int = 1 << 14) -> None:
        self._size = size
        self._values = array("d")
        self._next = 0

    def add(self, value: float) -> None:
        """Takes one value, and forgets the oldest when full."""
        if len(self._values) < self._size:
            self._values.append(value)
        else:
            self._values[self._next] = value
            self._next = (self._next + 1) % self._size

    def __len__(self) -> int:
        return len(self._values)

    def quantile(self, share: float) -> float | None:
        """One quantile of the values kept, None without any."""
        return float(np.quantile(np.array(self._values), share)) if self._values else None

    def percentiles(self) -> dict[str, float | None]:
        """p50, p95 and p99; None where there are too few values to say (the p99 needs 1,000)."""
        n = len(self._values)
        if n == 0:
            return {"p50": None, "p95": None, "p99": None}
        p50, p95, p99 = np.quantile(np.array(self._values), (0.5, 0.95, 0.99))
        return {
            "p50": float(p50),
            "p95": float(p95) if n >= 20 else None,
            "p99": float(p99) if n >= FEWEST_FOR_P99 else None,
        }
