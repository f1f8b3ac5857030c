"""How a worker's choices become known to the others, where no engine tells what it holds: a ring each.

A conversation's next turn comes to any worker; the one it comes to must know where the last one was sent.
Each worker writes its choices, and what was refused, into its own ring in shared memory, and reads those of
the others when it looks at their load.  A ring is never waited for: who reads too seldom misses some, which
costs a cache hit at most.

An entry is a word of length, kind and engine, one of checksum, then the prompt's links and ends.  The count
of words written stands before the ring and is set last; the checksum is for machines that write out of order.
"""

from array import array
from collections.abc import Sequence
from typing import Final

from xxhash import xxh3_64_intdigest

RING_WORDS: Final = 1 << 17  # 1 MB: about 1,800 choices of 8k tokens
_HEAD: Final = 2
_MOST_WORDS: Final = RING_WORDS // 8  # of an entry: a longer prompt is not told
_SENT, _REFUSED = 1, 2

Told = tuple[int, Sequence[int], Sequence[int]]
"""Engine, links, ends; without ends: the prompt that ends in that link was refused."""


class Choices:
    """One worker's hold on all rings: its own to write, the others to read."""

    def __init__(self, rings: Sequence["memoryview[int]"], worker: int) -> None:
        """Each of `rings` is the count and `RING_WORDS` words."""
        self._own = rings[worker]
        self._others = [ring for n, ring in enumerate(rings) if n != worker]
        self._read = [ring[0] for ring in self._others]
        self.missed = 0  # times others had written more than a ring holds

    def sent(self, engine: int, links: Sequence[int], ends: Sequence[int]) -> None:
        """Tell that `engine` was sent the prompt of these."""
        if 0 < len(links) <= _MOST_WORDS // 2 - _HEAD:
            self._tell(_SENT, engine, array("Q", [*links, *ends]))

    def refused(self, engine: int, links: Sequence[int]) -> None:
        """Tell that nothing came of it."""
        if links:
            self._tell(_REFUSED, engine, array("Q", links[-1:]))

    def news(self) -> list[Told]:
        """What the others told since the last time."""
        found: list[Told] = []
        for n, ring in enumerate(self._others):
            if ring[0] != self._read[n]:
                self._read[n] = self._take(ring, self._read[n], found)
        return found

    def _tell(self, kind: int, engine: int, words: "array[int]") -> None:
        ring = self._own
        written: int = ring[0]
        length = len(words) + _HEAD
        at = written % RING_WORDS
        if at + length > RING_WORDS:
            ring[1 + at] = 0  # the rest is left empty: an entry is in one piece
            written += RING_WORDS - at
            at = 0
        ring[1 + at] = length << 32 | kind << 24 | engine
        ring[2 + at] = xxh3_64_intdigest(words)
        ring[1 + at + _HEAD : 1 + at + length] = memoryview(words)
        ring[0] = written + length

    def _take(self, ring: "memoryview[int]", read: int, found: list[Told]) -> int:
        """Read on from word `read`; how far it was read."""
        written = ring[0]
        if written - read > RING_WORDS // 2:  # what is older may be written over while it is read
            self.missed += 1
            return written
        while read < written:
            at = read % RING_WORDS
            first = ring[1 + at]
            length = first >> 32
            if not length:
                read += RING_WORDS - at
                continue
            entry = ring[2 + at : 1 + at + length].tobytes()
            if len(entry) < 16 or xxh3_64_intdigest(entry[8:]) != int.from_bytes(entry[:8], "little"):
                return read if length <= _MOST_WORDS else written  # perhaps not there yet: next time
            words = memoryview(entry)[8:].cast("Q").tolist()
            engine, kind = first & 0xFFFFFF, first >> 24 & 0xFF
            if kind == _REFUSED:
                found.append((engine, words, ()))
            else:
                found.append((engine, words[: len(words) // 2], words[len(words) // 2 :]))
            read += length
        return read
