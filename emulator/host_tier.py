"""Which evicted blocks does the host's memory still have?  The one least recently put or read goes first."""

from collections import Counter, OrderedDict
from collections.abc import Sequence


class HostTier:
    """`num_blocks` blocks, by name.  What is being read stays until it was."""

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        self._names: OrderedDict[int, None] = OrderedDict()
        self._readers: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: int) -> bool:
        return name in self._names

    def names(self) -> set[int]:
        """All that is here."""
        return set(self._names)

    def put(self, name: int) -> int | None:
        """Take a block in; the name of the one that had to go for it, which may be its own."""
        self._names[name] = None
        if len(self._names) <= self._num_blocks:
            return None
        gone = next(one for one in self._names if one == name or not self._readers[one])
        del self._names[gone]
        return gone

    def read(self, names: Sequence[int]) -> None:
        """Begin to read blocks, in a chain's order: its tail will go first."""
        for name in reversed(names):
            if name in self._names:
                self._names.move_to_end(name)
        self._readers.update(names)

    def was_read(self, names: Sequence[int]) -> None:
        """The reading of blocks ended."""
        for name in names:
            self._readers[name] -= 1
            if self._readers[name] <= 0:
                del self._readers[name]

    def discard(self, name: int) -> bool:
        """Let a block go; whether it was here."""
        if name not in self._names:
            return False
        del self._names[name]
        return True

    def clear(self) -> None:
        """Let all go."""
        self._names.clear()
        self._readers.clear()
