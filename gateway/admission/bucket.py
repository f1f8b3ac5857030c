"""How much of a rate is left: a token bucket that is one number, so that workers can share it."""


class Bucket:
    """Refills at `per_s`, holds `burst` at most.

    The one shared cell holds the instant at which the bucket will be full again (GCRA's theoretical arrival
    time): taking moves it on, giving back moves it back, time does the rest.  Callers hold the table's lock.
    """

    __slots__ = ("_at", "_cells", "_depth_ns", "_each_ns", "burst", "per_s")

    def __init__(self, cells: memoryview, at: int, per_s: float, burst: int) -> None:
        self._cells = cells
        self._at = at
        self._each_ns = 1e9 / per_s
        self._depth_ns = int(burst * self._each_ns)
        self.per_s = per_s
        self.burst = burst

    def lacks_ns(self, amount: int, at_ns: int) -> int:
        """For how long `amount` is not there; 0 or less when it is.  Above `burst` it never will be."""
        full_ns: int = self._cells[self._at]
        if full_ns < at_ns:
            full_ns = at_ns
        return full_ns + int(amount * self._each_ns) - self._depth_ns - at_ns

    def take(self, amount: int, at_ns: int) -> None:
        """Take `amount`, which was there."""
        full_ns: int = self._cells[self._at]
        if full_ns < at_ns:
            full_ns = at_ns
        self._cells[self._at] = full_ns + int(amount * self._each_ns)

    def owe(self, amount: int, at_ns: int) -> None:
        """Take `amount`, there or not: nothing more is until the debt is paid.

        A debt is at most ten times the burst, whatever an engine says that it read.
        """
        full_ns = max(self._cells[self._at], at_ns) + int(amount * self._each_ns)
        self._cells[self._at] = min(full_ns, at_ns + 11 * self._depth_ns)

    def give(self, amount: int) -> None:
        """Give back `amount` that was taken before; the bucket holds `burst` at most all the same."""
        self._cells[self._at] -= int(amount * self._each_ns)
