"""Who holds which block, in one piece of memory that one process writes and many read without a lock.

An open-addressing hash table of 64-bit words: a slot is a block's name and a mask with a bit for each
publisher.  Slots are probed one after the other from a place that a secret number decides, so that nobody can
choose names that crowd; a lookup probes at most `MOST_PROBES` slots, whatever the table holds.  A name whose
mask became 0 stays until its slot is taken by another, or the table is made anew.  A reader may see a name's
mask a moment before or after it changed, which a routing decision can bear.
"""

from collections.abc import Iterator, Sequence
from typing import Final

MOST_PROBES: Final = 128
FULL: Final = 0.55
"""Above this share of taken slots chains of probes grow long: time for a larger table."""
LEAST_BITS: Final = 12
_U64: Final = (1 << 64) - 1


def words_for(bits: int, mask_words: int) -> int:
    """The size of a table of 2**bits slots, in words."""
    return (1 << bits) * (1 + mask_words)


def bits_for(names: int) -> int:
    """So many bits that a table of `names` has room to grow: at most a third is taken."""
    bits = LEAST_BITS
    while names > (FULL * 0.6) * (1 << bits):
        bits += 1
    return bits


class Table:
    """A view of the memory: `words` is of 64-bit cells, `words_for(bits, mask_words)` of them.

    `factor` is the secret, an odd number below 2**64 that whoever maps the same memory must know.
    """

    __slots__ = ("_factor", "_last", "_shift", "_stride", "_words", "bits", "mask_words", "taken")

    def __init__(self, words: memoryview, bits: int, mask_words: int, factor: int) -> None:
        self._words = words
        self._factor = factor
        self._shift = 64 - bits
        self._last = (1 << bits) - 1
        self._stride = 1 + mask_words
        self.bits = bits
        self.mask_words = mask_words
        self.taken = 0
        """Slots with a name, as the writer knows; a reader does not."""

    def mask(self, name: int) -> int:
        """The publishers that hold `name`, as bits; 0: none."""
        words, stride, last = self._words, self._stride, self._last
        at = name * self._factor >> self._shift & last
        for _ in range(MOST_PROBES):
            place = at * stride
            here = words[place]
            if here == name:
                if stride == 2:
                    return words[place + 1]
                return sum(words[place + 1 + word] << (64 * word) for word in range(self.mask_words))
            if not here:
                return 0
            at = at + 1 & last
        return 0

    def ends(self, names: Sequence[int], held: int) -> dict[int, int]:
        """Where along `names` each of the bits `held`, which `names[0]` has, is lost; by bit, all of them.

        Of publishers that hold a name only with all before it. Found by halving, for all bits at once: where
        the masks at both ends of a stretch are the same nobody's end lies within. With e different ends that
        is about e * log2(n / e) + 2 * e look-ups, in whatever order they lie.
        """
        found: dict[int, int] = {}
        # A name mostly lies where it hashes to; what is to be searched for is left to `mask`.
        words, factor, shift, last = self._words, self._factor, self._shift, self._last
        is_narrow = self._stride == 2
        # What lies to the right of the stretch that is looked at: where each ends, and who holds that.
        highs: list[int] = []
        masks: list[int] = []
        low, high = 0, len(names)
        below, above = held, 0
        while below:
            while high - low > 1 and below != above:
                middle = (low + high) >> 1
                name = names[middle]
                place = (name * factor >> shift & last) << 1
                if is_narrow and words[place] == name:
                    there = words[place + 1] & below | above
                else:
                    there = self.mask(name) & below | above
                if there == below:
                    low = middle
                    continue
                if there != above:
                    highs.append(high)
                    masks.append(above)
                high, above = middle, there
            lost = below ^ above
            while lost:
                bit = lost.bit_length() - 1
                found[bit] = high
                lost ^= 1 << bit
            if not highs:
                break
            low, below = high, above
            high, above = highs.pop(), masks.pop()
        return found

    def add(self, name: int, bit: int) -> bool | None:
        """Set a publisher's bit; whether it was not set before, None when there is no room near."""
        word, flag = divmod(bit, 64)
        words, stride, last = self._words, self._stride, self._last
        at = name * self._factor >> self._shift & last
        spare = -1
        for _ in range(MOST_PROBES):
            place = at * stride
            here = words[place]
            if here == name:
                cell = place + 1 + word
                had = words[cell]
                words[cell] = had | 1 << flag
                return not had >> flag & 1
            if not here:
                if spare < 0:
                    spare = place
                    self.taken += 1
                break
            if spare < 0 and not any(words[place + 1 : place + stride]):
                spare = place
            at = at + 1 & last
        if spare < 0:
            return None
        words[spare + 1 + word] = 1 << flag
        words[spare] = name  # last: who finds the name finds its mask
        return True

    def discard(self, name: int, bit: int) -> None:
        """Clear a publisher's bit."""
        word, flag = divmod(bit, 64)
        words, stride, last = self._words, self._stride, self._last
        at = name * self._factor >> self._shift & last
        for _ in range(MOST_PROBES):
            place = at * stride
            here = words[place]
            if here == name:
                words[place + 1 + word] &= _U64 ^ 1 << flag
                return
            if not here:
                return
            at = at + 1 & last

    def entries(self) -> Iterator[tuple[int, int]]:
        """Every name that somebody holds, with its mask."""
        words, stride = self._words, self._stride
        for place in range(0, len(words), stride):
            name = words[place]
            if name:
                mask = 0
                for word in range(self.mask_words):
                    mask |= words[place + 1 + word] << (64 * word)
                if mask:
                    yield name, mask

    def put(self, name: int, mask: int) -> bool:
        """Enter a name into a table that does not have it; False when there is no room near."""
        words, stride, last = self._words, self._stride, self._last
        at = name * self._factor >> self._shift & last
        for _ in range(MOST_PROBES):
            place = at * stride
            if not words[place]:
                for word in range(self.mask_words):
                    words[place + 1 + word] = mask >> (64 * word) & _U64
                words[place] = name
                self.taken += 1
                return True
            at = at + 1 & last
        return False

    def release(self) -> None:
        """Let go of the memory."""
        self._words.release()
