"""How long did things take, counted into the buckets in which it is exported?

Counted as each ends: a second's durations sorted into buckets at once were a pause of milliseconds for all
that runs, and dearer.
"""

# Not Final: the compiler would keep them as so many floats, and take them for unset.
TTFT_S: tuple[float, ...] = (
    0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 20.0,
    40.0, 80.0,
)  # fmt: skip
E2E_S: tuple[float, ...] = (
    0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 120.0, 240.0,
    480.0, 960.0,
)  # fmt: skip
OVERHEAD_S: tuple[float, ...] = (
    25e-6, 50e-6, 100e-6, 200e-6, 400e-6, 800e-6, 1.6e-3, 3.2e-3, 6.4e-3, 12.8e-3, 25.6e-3, 0.1, 1.0,
)  # fmt: skip


class Durations:
    """Those of one kind, in seconds.  `counts[i]` are at most `bounds[i]` and more than the bound before; the
    last one are beyond all bounds."""

    __slots__ = ("_bounds", "counts", "total_s")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        # By hand: where this is compiled `bisect_left`, which compares objects, is several times as dear.
        bounds = self._bounds
        low, high = 0, len(bounds)
        while low < high:
            middle = (low + high) >> 1
            if bounds[middle] < seconds:
                low = middle + 1
            else:
                high = middle
        self.counts[low] += 1
        self.total_s += seconds

    @property
    def n(self) -> int:
        """How many there are."""
        return sum(self.counts)
