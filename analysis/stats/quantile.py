"""What are the percentiles of the answers so far?  Of the latest ones, and only where enough were seen."""

import numpy as np
from numpy.typing import NDArray

FEWEST_FOR_P99 = 1000  # with fewer, no confidence interval of the p99 has an upper end


class Latest:
    """The latest `size` values; their percentiles do not depend on the order in which they came."""

    def __init__(self, size: int = 1 << 14) -> None:
        self._kept = np.empty(size)
        self._taken = 0

    def add(self, values: NDArray[np.float64]) -> None:
        """Takes values in the order in which they came, and forgets the oldest when full."""
        size = len(self._kept)
        at = np.arange(self._taken, self._taken + len(values))[-size:] % size
        self._kept[at] = values[-size:]
        self._taken += len(values)

    def __len__(self) -> int:
        return min(self._taken, len(self._kept))

    @property
    def _values(self) -> NDArray[np.float64]:
        return self._kept[: len(self)]

    def quantile(self, share: float) -> float | None:
        """One quantile of the values kept, None without any."""
        return float(np.quantile(self._values, share)) if len(self) else None

    def percentiles(self) -> dict[str, float | None]:
        """p50, p95 and p99; None where there are too few values to say (the p99 needs 1,000)."""
        n = len(self)
        if n == 0:
            return {"p50": None, "p95": None, "p99": None}
        p50, p95, p99 = np.quantile(self._values, (0.5, 0.95, 0.99))
        return {
            "p50": float(p50),
            "p95": float(p95) if n >= 20 else None,
            "p99": float(p99) if n >= FEWEST_FOR_P99 else None,
        }
