"""What is known at each link of a text chain, in flat arrays: 25 bytes a link, 38 to 75 with room to grow.

Two generations bound it: what is learned or used is in the young one; when that is full, the old one is
dropped and the young one is the old. So what goes is what was not used for longest, roughly, and a chain's
beginning never goes before what continues it.
"""

from array import array
from collections.abc import Sequence
from typing import Final

from routing.bridge.paths import Path

_LEAST_SLOTS: Final = 256
UNKNOWN: Final = 0xFFFF_FFFF


class Table:
    """One generation: open addressing by the link, which is random already. Columns by slot."""

    __slots__ = ("exact", "held", "keys", "mask", "parted", "path_at", "paths", "size", "tokens")

    def __init__(self) -> None:
        self.size = 0
        self.paths: list[Path] = []
        self._make(_LEAST_SLOTS)

    def _make(self, slots: int) -> None:
        self.mask = slots - 1
        self.keys = array("Q", bytes(8 * slots))
        self.path_at = array("I", bytes(4 * slots))
        self.held = array("I", bytes(4 * slots))
        self.parted = array("I", bytes(4 * slots))
        self.tokens = array("I", bytes(4 * slots))
        self.exact = bytearray(slots)

    def find(self, link: int) -> int:
        """The link's slot, or -1."""
        keys, mask = self.keys, self.mask
        at = link & mask
        while (there := keys[at]) != link:
            if not there:
                return -1
            at = (at + 1) & mask
        return at

    def put(self, link: int, path_at: int, held: int, parted: int, tokens: int, exact: int) -> None:
        """Write a link's columns, over those it has."""
        if self.size * 3 >= self.mask * 2:
            self._double()
        keys, mask = self.keys, self.mask
        at = link & mask
        while (there := keys[at]) != link and there:
            at = (at + 1) & mask
        if not there:
            keys[at] = link
            self.size += 1
        self.path_at[at], self.held[at], self.parted[at] = path_at, held, parted
        self.tokens[at], self.exact[at] = tokens, exact

    def path(self, slot: int) -> Path:
        """A path of which the link's blocks are the beginning."""
        return self.paths[self.path_at[slot]]

    def keep(self, path: Path) -> int:
        """A number for a path."""
        if not self.paths or self.paths[-1] is not path:
            self.paths.append(path)
        return len(self.paths) - 1

    def _double(self) -> None:
        columns = (self.keys, self.path_at, self.held, self.parted, self.tokens, self.exact)
        self.size = 0
        self._make(2 * (self.mask + 1))
        for link, *rest in zip(*columns, strict=True):
            if link:
                self.put(link, *rest)


class Nodes:
    """Both generations. At most `most` links."""

    def __init__(self, most: int) -> None:
        self._half = max(1, most // 2)
        self.young = Table()
        self._old = Table()

    def __len__(self) -> int:
        return self.young.size + self._old.size

    def clear(self) -> None:
        """Forget everything."""
        self.young, self._old = Table(), Table()

    def known(self, chain: Sequence[int]) -> int:
        """How many leading links are known; afterwards they all are in the young generation."""
        young, old = self.young, self._old
        # chain[:low] is known, chain[high:] is not. Most requests continue what is known: looked for from
        # the end, in steps that double, then bisected.
        low, high, step, is_aged = 0, len(chain), 1, False
        while low < high:
            middle = max(low, high - step)
            if young.find(chain[middle]) >= 0:
                low = middle + 1
                step = (high - low + 1) // 2
            elif old.size and old.find(chain[middle]) >= 0:
                low, is_aged = middle + 1, True
                step = (high - low + 1) // 2
            else:
                high = middle
                step *= 2
        return self._renewed(chain, low) if is_aged else low

    def room(self) -> None:
        """Make room, before something is learned, where the young generation is full."""
        if self.young.size >= self._half:
            self._old, self.young = self.young, Table()

    def _renewed(self, chain: Sequence[int], count: int) -> int:
        """Bring the first links into the young generation; how many of them there were."""
        young, old = self.young, self._old
        for at in range(count):
            link = chain[at]
            if young.find(link) >= 0:
                continue
            slot = old.find(link)
            if slot < 0:
                return at
            number = young.keep(old.path(slot))
            young.put(link, number, old.held[slot], old.parted[slot], old.tokens[slot], old.exact[slot])
        return count
