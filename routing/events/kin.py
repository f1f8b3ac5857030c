"""Which blocks continue a block?  Kept only where removals take what continues a block with it.

Lists through arrays, by slot: a parent's first child, and each child's neighbours.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

NONE: Final = -1


class Kin:
    """`slots` are those in use, `parents` every slot's parent."""

    def __init__(self, slots: Iterable[int], parents: Sequence[int]) -> None:
        self._first, self._next, self._before = array("i"), array("i"), array("i")
        self._reach(len(parents))
        for slot in slots:
            self._link(slot, parents[slot])

    def add(self, slot: int, parent: int) -> None:
        """A block came."""
        self._reach(slot + 1)
        self._first[slot] = self._next[slot] = self._before[slot] = NONE
        self._link(slot, parent)

    def discard(self, slot: int, parent: int) -> None:
        """A block that nothing continues is gone."""
        if parent == NONE:
            return
        before, after = self._before[slot], self._next[slot]
        if before == NONE:
            self._first[parent] = after
        else:
            self._next[before] = after
        if after != NONE:
            self._before[after] = before

    def line(self, slot: int) -> list[int]:
        """A block and all that continues it, each before what it continues."""
        found = [slot]
        for one in found:  # which grows meanwhile
            child = self._first[one]
            while child != NONE:
                found.append(child)
                child = self._next[child]
        found.reverse()
        return found

    def _link(self, slot: int, parent: int) -> None:
        if parent != NONE:
            other = self._first[parent]
            self._next[slot], self._first[parent] = other, slot
            if other != NONE:
                self._before[other] = slot

    def _reach(self, slots: int) -> None:
        more = slots - len(self._first)
        if more > 0:
            for one in (self._first, self._next, self._before):
                one.extend([NONE] * more)
