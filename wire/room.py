"""How many connections to engines a process may have open, all its pools together."""

from typing import Protocol


class Evicts(Protocol):
    """A holder of idle connections."""

    def evict(self) -> bool:
        """Close one idle connection; False when there is none."""
        ...


class Room:
    """A bound on open connections shared by pools.

    Descriptors are the process's, not a pool's: where they run out it is nobody's fault at the engines, and
    what some other pool holds idle is given up first.
    """

    __slots__ = ("_holders", "most", "taken")

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._holders: list[Evicts] = []

    def join(self, holder: Evicts) -> None:
        """`holder` may be asked to give up idle connections."""
        self._holders.append(holder)

    def part(self, holder: Evicts) -> None:
        if holder in self._holders:
            self._holders.remove(holder)

    def take(self) -> bool:
        """Count one more connection; False when there is no room and nothing idle to make some."""
        if self.taken >= self.most and not any(holder.evict() for holder in self._holders):
            return False
        self.taken += 1
        return True

    def give(self) -> None:
        self.taken -= 1
