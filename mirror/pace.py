"""How long do blocks take, the coming of arms included, and so how long will those take that are left?"""


class Pace:
    """Blocks as they pass; instants are monotonic nanoseconds.

    Until one has passed, a block is taken to be its two slots, which is the least that it can be.
    """

    def __init__(self, slot_s: float) -> None:
        self._block_s = 2.0 * slot_s
        self._seconds = 0.0
        self._blocks = 0
        self._began_ns: int | None = None

    def begins(self, now_ns: int) -> None:
        """A block begins; one that came to nothing before it is forgotten."""
        self._began_ns = now_ns

    def ends(self, now_ns: int) -> None:
        """The block that began has passed."""
        if self._began_ns is not None:
            self._seconds += (now_ns - self._began_ns) / 1e9
            self._blocks += 1
            self._began_ns = None

    def left_s(self, now_ns: int, blocks: int) -> float:
        """Seconds until so many blocks have passed, the one that runs now among them."""
        block_s = self._seconds / self._blocks if self._blocks else self._block_s
        gone_s = 0.0 if self._began_ns is None else (now_ns - self._began_ns) / 1e9
        return max(0.0, blocks * block_s - min(gone_s, block_s)) if blocks else 0.0
