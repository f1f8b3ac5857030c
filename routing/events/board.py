"""What the one process that reads events tells those that route: where the table is, and whom to believe.

64-bit words in one piece of memory: a head, and a row for each publisher, whose number is its bit in the
table's masks.  The writer makes the version odd before it changes what readers must see together, and even
again after it; a reader that meets an odd or another version goes on with what it read before, and tries
again.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from msgspec import Struct

MAGIC: Final = 0x53_4C_4B_56_45_56_31  # "SLKVEV1"
MOST_PUBLISHERS: Final = 1024
HEAD_WORDS: Final = 16
ROW_WORDS: Final = 16
WORDS: Final = HEAD_WORDS + MOST_PUBLISHERS * ROW_WORDS
_ROWS_BYTES: Final = MOST_PUBLISHERS * ROW_WORDS * 8
_U64: Final = (1 << 64) - 1

# The head's words.
_MAGIC, _VERSION, _GENERATION, _BITS, _MASK_WORDS, _FACTOR, _BEAT, _ROWS = range(8)
# A row's words.
_ENGINE, _RANK, _STATE, _BLOCK_SIZE, _GHOSTS, _HELD, _BEGUN, _TIER = range(8)
_LOAD, _LOAD_WORDS = 8, 6


class State(IntEnum):
    """How far a publisher is believed.

    COLD: nothing was heard.  BOOTSTRAP: what it published before is being asked for.  EXACT: all that it
    published was heard, so what it does not hold is known too.  DEGRADED: something is missing; what is known
    to be held was said by the engine, and there may be more.
    """

    COLD = 0
    BOOTSTRAP = 1
    EXACT = 2
    DEGRADED = 3


class Row(Struct, frozen=True, gc=False):
    """One publisher as readers see it.  `engine` is its id, `number` its bit.

    `begun` counts how often what is known of it was forgotten.  `tier`: its bit is of what it holds there or
    above (`decode.DEVICE`, `HOST`, `STORE`).
    """

    number: int
    engine: int
    rank: int
    state: State
    block_size: int
    ghosts: int
    held: int
    begun: int = 0
    tier: int = 0


class Place(Struct, frozen=True, gc=False):
    """Which table to look into."""

    generation: int
    bits: int
    mask_words: int
    factor: int


class Load(Struct, frozen=True, gc=False):
    """What an engine's rank last said of its load.  `at_ns` is when it was heard, by CLOCK_MONOTONIC.

    `prefill_tokens` wait uncached to be computed; `used_tokens` of `most_tokens` are in the KV cache.
    """

    at_ns: int
    running: int
    queued: int
    used_tokens: int
    most_tokens: int
    prefill_tokens: int


class Board:
    """A view of the memory, `WORDS` cells of 64 bits.  Zeros are a board on which nothing is."""

    __slots__ = ("_words",)

    def __init__(self, words: memoryview) -> None:
        self._words = words

    # What a reader asks

    @property
    def version(self) -> int:
        """Odd while it is being changed."""
        return self._words[_VERSION]

    @property
    def beat_ns(self) -> int:
        """When the writer last showed that it lives, by CLOCK_MONOTONIC."""
        return self._words[_BEAT]

    def place(self) -> Place | None:
        """Where the table is; None before there is one."""
        words = self._words
        if words[_MAGIC] != MAGIC:
            return None
        return Place(words[_GENERATION], words[_BITS], words[_MASK_WORDS], words[_FACTOR])

    def rows(self) -> list[Row]:
        """All publishers."""
        words, found = self._words, []
        for number in range(min(words[_ROWS], MOST_PUBLISHERS)):
            at = HEAD_WORDS + number * ROW_WORDS
            if words[at + _ENGINE]:
                engine, rank, state, *rest = words[at : at + 8]
                found.append(Row(number, engine - 1, rank, State(state & 3), *rest))
        return found

    def load(self, number: int) -> Load | None:
        """What a publisher's engine said of its load; None: nothing yet."""
        at = HEAD_WORDS + number * ROW_WORDS + _LOAD
        said = self._words[at : at + _LOAD_WORDS].tolist()
        return Load(*said) if said[0] else None

    # What the writer says

    def begin(self) -> None:
        """Readers wait for `end`."""
        self._words[_VERSION] |= 1

    def end(self) -> None:
        """What was changed is whole."""
        self._words[_VERSION] = (self._words[_VERSION] | 1) + 1

    def clear(self) -> None:
        """Nothing is known: readers are to forget what they knew."""
        words = self._words
        self.begin()
        for at in (_MAGIC, _BEAT, _ROWS):
            words[at] = 0
        words[HEAD_WORDS:WORDS] = memoryview(bytes(_ROWS_BYTES)).cast("Q")
        self.end()

    def beat(self, now_ns: int) -> None:
        """The writer lives."""
        self._words[_BEAT] = now_ns

    def move(self, place: Place, rows: int) -> None:
        """The table is there now, and has bits for so many rows."""
        words = self._words
        words[_GENERATION], words[_BITS] = place.generation, place.bits
        words[_MASK_WORDS], words[_FACTOR], words[_ROWS] = place.mask_words, place.factor, rows
        words[_MAGIC] = MAGIC

    def put(self, row: Row) -> None:
        """A publisher's row."""
        at = HEAD_WORDS + row.number * ROW_WORDS
        values = (
            row.engine + 1, row.rank, row.state, row.block_size, row.ghosts, row.held, row.begun, row.tier
        )  # fmt: skip
        self._fill(at, values)

    def drop(self, number: int) -> None:
        """There is no such publisher any more."""
        self._fill(HEAD_WORDS + number * ROW_WORDS, (0,) * ROW_WORDS)

    def say_load(self, number: int, load: Load) -> None:
        """A publisher's engine said this of its load."""
        values = (
            load.at_ns, load.running, load.queued, load.used_tokens, load.most_tokens, load.prefill_tokens
        )  # fmt: skip
        self._fill(HEAD_WORDS + number * ROW_WORDS + _LOAD, values)

    def _fill(self, at: int, values: Sequence[int]) -> None:
        words = self._words
        for offset, value in enumerate(values):
            words[at + offset] = value & _U64

    def release(self) -> None:
        """Let go of the memory."""
        self._words.release()
