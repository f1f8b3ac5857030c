"""Block chains of learned prompts, each block kept once: a chain is its parent's beginning and a tail.

A hash in a chain stands for all before it (`routing.events.chain`): where two part is found by bisection.
"""

from array import array
from collections.abc import Sequence


class Path:
    """One prompt's chain: the first `start` blocks are those of `parent`, `tail` follows."""

    __slots__ = ("parent", "start", "tail")

    def __init__(self, parent: "Path | None", start: int, tail: "array[int]") -> None:
        self.parent = parent
        self.start = start
        self.tail = tail

    def __len__(self) -> int:
        return self.start + len(self.tail)

    def leading(self, count: int) -> "array[int]":
        """The first `count` blocks, or all where there are fewer."""
        path: Path | None = self
        while path is not None and count <= path.start:
            path = path.parent
        if path is None:
            return array("Q")
        start, tail = path.start, path.tail
        pieces = [tail if count >= start + len(tail) else tail[: count - start]]
        while start:
            path = path.parent
            assert path is not None
            if path.start < start:
                tail = path.tail
                pieces.append(tail if start == path.start + len(tail) else tail[: start - path.start])
                start = path.start
        pieces.reverse()
        blocks = array("Q")
        blocks.frombytes(b"".join(pieces))  # one piece of memory for all, however many turns
        return blocks

    def shared(self, chain: Sequence[int]) -> int:
        """How many leading blocks this path and `chain` have in common."""
        most, path = len(chain), self
        while path.parent is not None and (
            path.start >= most or not path.tail or path.tail[0] != chain[path.start]
        ):
            most = min(most, path.start)
            path = path.parent
        tail, start = path.tail, path.start
        low, high = 0, min(len(tail), most - start)  # tail[:low] is shared; bisect for how far
        while low < high:
            middle = (low + high) // 2
            if tail[middle] == chain[start + middle]:
                low = middle + 1
            else:
                high = middle
        return start + low

    def grown(self, chain: "array[int]", shared: int) -> "Path":
        """The path of `chain`, of which the first `shared` blocks are this path's too."""
        path = self
        while path.parent is not None and shared <= path.start:
            path = path.parent
        return Path(path, shared, chain[shared:]) if shared else Path(None, 0, chain)
