"""Which engines hold how much of a chain of blocks?  The readers' side of the memory, as a worker has it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from routing.events.board import Board, Load, Place, Row, State
from routing.events.decode import DEVICE, HOST, STORE
from routing.events.table import Table
from routing.events.trust import Complete

SILENT_NS: Final = 5_000_000_000
"""After so long without a sign of life from the writer nothing is known any more."""
_MOST_STEPS: Final = 1024
"""Blocks that are looked up one by one, for a publisher of which holding one does not mean all before it."""

# Gives the memory of the table of a generation; None when it is gone already.
OpenTable = Callable[[int], memoryview | None]


class _Size:
    """The publishers whose blocks have one size."""

    __slots__ = ("all", "engines", "holed", "is_ranked")

    def __init__(self) -> None:
        self.all = 0
        self.holed = 0  # of these, those that hold blocks without all before them
        self.engines: dict[int, list[int]] = {}  # the bits of each engine's ranks
        self.is_ranked = False  # one of them has several


class Reader:
    """`known.KnownBlocks` over the memory another process writes.  Call `look` about once a second."""

    def __init__(self, board: Board, open_table: OpenTable) -> None:
        self._board = board
        self._open_table = open_table
        self._version = -1
        self._place: Place | None = None
        self._table: Table | None = None
        self._alive = False
        self._exact: dict[int, _Size] = {}  # by block size
        self._partial: dict[int, _Size] = {}
        self._lower: dict[int, dict[int, _Size]] = {}  # by block size and tier
        self._empty: list[int] = []  # engines that are known to hold nothing
        self._rows: list[Row] = []
        self._complete = Complete()

    def look(self, now_ns: int) -> None:
        """See whether the writer lives.  `now_ns` is CLOCK_MONOTONIC."""
        self._alive = 0 <= now_ns - self._board.beat_ns < SILENT_NS

    def match(self, blocks: Sequence[int], block_size: int) -> dict[int, int]:
        """As `KnownBlocks.match`."""
        table = self._current()
        if table is None or not self._alive:
            return {}
        size = self._exact.get(block_size)
        found = {} if size is None else self._engines(_held(table, blocks, size), size)
        for engine in self._empty:
            found[engine] = 0
        return found

    def apart(self, blocks: Sequence[int], block_size: int) -> dict[int, tuple[int, ...]]:
        """As `KnownBlocks.apart`."""
        table = self._current()
        size = self._exact.get(block_size)
        if table is None or size is None or not self._alive or not size.is_ranked:
            return {}
        held = _held(table, blocks, size)
        return {
            engine: tuple(held.get(bit, 0) for bit in bits)
            for engine, bits in size.engines.items()
            if len(bits) > 1
        }

    def at_least(self, blocks: Sequence[int], block_size: int) -> dict[int, int]:
        """As `KnownBlocks.at_least`."""
        table = self._current()
        size = self._partial.get(block_size)
        if table is None or size is None or not self._alive:
            return {}
        return self._engines(_held(table, blocks, size), size)

    def below(self, blocks: Sequence[int], block_size: int) -> dict[int, tuple[int, int]]:
        """As `KnownBlocks.below`."""
        table = self._current()
        tiers = self._lower.get(block_size) if self._lower else None
        if table is None or not tiers or not self._alive:
            return {}
        found: dict[int, tuple[int, int]] = {}
        for tier in (HOST, STORE):
            size = tiers.get(tier)
            for engine, count in (
                () if size is None else self._engines(_held(table, blocks, size), size).items()
            ):
                host = found.get(engine, (0, 0))[0] if tier == STORE else count
                found[engine] = host, max(host, count)
        return found

    def judged(self, engine: int, foretold_tokens: int, cached_tokens: int, block_size: int) -> None:
        """As `KnownBlocks.judged`."""
        if self._complete.told(engine, foretold_tokens, cached_tokens, block_size):
            self._sort(self._rows)

    def block_sizes(self) -> Mapping[int, int]:
        """As `KnownBlocks.block_sizes`."""
        if self._current() is None or not self._alive:
            return {}
        sizes = (*self._partial.items(), *self._exact.items())
        return {engine: block_size for block_size, size in sizes for engine in size.engines}

    def loads(self, since_ns: int) -> dict[int, Load]:
        """What engines said of their load since then, over all ranks; not of those with a silent rank."""
        self._current()
        said: dict[int, list[Load | None]] = {}
        for row in self._rows:
            if row.tier == DEVICE:
                load = self._board.load(row.number)
                said.setdefault(row.engine, []).append(load if load and load.at_ns >= since_ns else None)
        found: dict[int, Load] = {}
        for engine, ranks in said.items():
            there = [one for one in ranks if one is not None]
            if len(there) == len(ranks):
                found[engine] = _sum(there)
        return found

    def rows(self) -> list[Row]:
        """All publishers, as they were last read."""
        self._current()
        return self._rows

    def close(self) -> None:
        """Let go of the memory."""
        if self._table is not None:
            self._table.release()
            self._table = None
        self._board.release()

    def _engines(self, held: Mapping[int, int], size: _Size) -> dict[int, int]:
        """Of each engine the mean over its ranks."""
        found: dict[int, int] = {}
        for engine, bits in size.engines.items():
            if len(bits) == 1:
                found[engine] = held.get(bits[0], 0)
            else:
                found[engine] = sum(held.get(bit, 0) for bit in bits) // len(bits)
        return found

    def _current(self) -> Table | None:
        """The table now, with the publishers as they are on the board."""
        if self._board.version != self._version:
            self._read()
        return self._table

    def _read(self) -> None:
        version = self._board.version
        if version & 1:
            return
        place, rows = self._board.place(), self._board.rows()
        if self._board.version != version:
            return
        if place != self._place:
            if self._table is not None:
                self._table.release()
                self._table = None
            memory = self._open_table(place.generation) if place is not None else None
            if place is not None and memory is None:
                return  # replaced meanwhile: the next version says by what
            if place is not None and memory is not None:
                self._table = Table(memory, place.bits, place.mask_words, place.factor)
            self._place = place
        self._version = version
        self._sort(rows)

    def _sort(self, rows: list[Row]) -> None:
        self._rows = rows
        self._exact, self._partial, self._empty, self._lower = {}, {}, [], {}
        by_engine: dict[int, list[Row]] = {}
        for row in rows:
            if row.tier == DEVICE:
                by_engine.setdefault(row.engine, []).append(row)
            elif row.block_size:
                tiers = self._lower.setdefault(row.block_size, {})
                _add(tiers.setdefault(row.tier, _Size()), [row])
        for engine, ranks in by_engine.items():
            sizes = {row.block_size for row in ranks if row.block_size}
            states = {row.state for row in ranks}
            if not sizes and states == {State.EXACT}:
                self._empty.append(engine)
            if len(sizes) != 1 or not states <= {State.EXACT, State.DEGRADED}:
                continue
            begun = tuple(row.begun for row in ranks)
            is_exact = states == {State.EXACT} or self._complete.has(engine, begun)
            sort = self._exact if is_exact else self._partial
            _add(sort.setdefault(sizes.pop(), _Size()), ranks)


def _add(size: _Size, rows: Sequence[Row]) -> None:
    """Rows of one engine."""
    size.is_ranked = size.is_ranked or len(rows) > 1
    for row in rows:
        size.engines.setdefault(row.engine, []).append(row.number)
        size.all |= 1 << row.number
        if row.ghosts:
            size.holed |= 1 << row.number


def _held(table: Table, blocks: Sequence[int], size: _Size) -> dict[int, int]:
    """How many leading blocks each publisher holds, by its bit; those that hold none are not in it."""
    if not blocks:
        return {}
    first = table.mask(blocks[0]) & size.all
    held = table.ends(blocks, first & ~size.holed)
    left = first & size.holed
    for steps, name in enumerate(blocks[:_MOST_STEPS] if left else ()):
        for bit in _bits(left & ~table.mask(name)):
            held[bit] = steps
            left ^= 1 << bit
        if not left:
            break
    for bit in _bits(left):
        held[bit] = min(len(blocks), _MOST_STEPS)
    return held


def _bits(mask: int) -> list[int]:
    bits = []
    while mask:
        bit = mask.bit_length() - 1
        bits.append(bit)
        mask ^= 1 << bit
    return bits


def _sum(loads: Sequence[Load]) -> Load:
    return Load(
        min(one.at_ns for one in loads),
        sum(one.running for one in loads),
        sum(one.queued for one in loads),
        sum(one.used_tokens for one in loads),
        sum(one.most_tokens for one in loads),
        sum(one.prefill_tokens for one in loads),
    )
