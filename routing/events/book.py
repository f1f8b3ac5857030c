"""All that publishers say they hold, written into one table as it comes: the writer's side of the memory."""

from collections.abc import Callable
from typing import Final

from routing.events.board import MOST_PUBLISHERS, Board, Load, Place, Row, State
from routing.events.decode import DEVICE
from routing.events.table import FULL, Table, bits_for, words_for

_MASK_BITS: Final = 64

# Gives the memory, all zeros, of the table of a generation; that of the generation before may go then.
NewTable = Callable[[int, int], memoryview]


class FullError(Exception):
    """More publishers than there are rows."""


class Book:
    """The table and the board, of which this object is the only writer.

    `new_table(generation, words)` gives memory; `factor()` a secret odd number below 2**64.  It begins with
    no publisher, whatever is on the board.
    """

    def __init__(self, board: Board, new_table: NewTable, factor: Callable[[], int]) -> None:
        self._board = board
        self._new_table = new_table
        self._factor = factor
        self._rows: dict[int, Marked] = {}
        self._no_room = 0
        place = board.place()
        self._generation = place.generation if place is not None else 0
        board.clear()
        self._table = self._made(bits_for(0), 1, names=0)
        self._publish()

    @property
    def no_room(self) -> int:
        """Blocks that found no place in the table, so far."""
        return self._no_room

    @property
    def size_bytes(self) -> int:
        """What the table takes in memory."""
        return words_for(self._table.bits, self._table.mask_words) * 8

    def open(self, engine: int, rank: int, tier: int = DEVICE) -> "Marked":
        """A row and a bit for a publisher, or for one of its lower tiers.  Raises FullError."""
        number = next((n for n in range(MOST_PUBLISHERS) if n not in self._rows), None)
        if number is None:
            raise FullError(f"there are {MOST_PUBLISHERS} publishers already")
        if number >= self._table.mask_words * _MASK_BITS:
            self._grow(mask_words=self._table.mask_words + 1)
        marked = self._rows[number] = Marked(self, number, engine, rank, tier)
        self._show(marked)
        return marked

    def close(self, marked: "Marked") -> None:
        """The publisher, which holds nothing any more, is gone."""
        del self._rows[marked.number]
        self._board.begin()
        self._board.drop(marked.number)
        self._board.end()

    def say_load(self, load: Load, number: int) -> None:
        """Put what a publisher's engine says of its load on the board."""
        self._board.say_load(number, load)

    def beat(self, now_ns: int) -> None:
        """Show that the writer lives."""
        self._board.beat(now_ns)

    def add(self, name: int, number: int) -> bool:
        """Mark that a publisher holds a block; whether that is new."""
        table = self._table
        if table.taken > FULL * (1 << table.bits):
            self._grow()
            table = self._table
        new = table.add(name, number)
        if new is None:
            self._no_room += 1
            return True
        return new

    def discard(self, name: int, number: int) -> None:
        """Mark that a publisher does not hold a block."""
        self._table.discard(name, number)

    def _grow(self, mask_words: int | None = None) -> None:
        """A table anew, of the size that what is held needs, without the names that nobody holds."""
        old = self._table
        names = sum(1 for _ in old.entries())
        self._table = self._made(bits_for(names), mask_words or old.mask_words, names)
        for name, mask in old.entries():
            if not self._table.put(name, mask):
                self._no_room += 1
        self._publish()
        old.release()

    def _made(self, bits: int, mask_words: int, names: int) -> Table:
        self._generation += 1
        self._secret = self._factor() | 1
        memory = self._new_table(self._generation, words_for(bits, mask_words))
        return Table(memory, bits, mask_words, self._secret)

    def _publish(self) -> None:
        table = self._table
        self._board.begin()
        self._board.move(
            Place(self._generation, table.bits, table.mask_words, self._secret),
            max(self._rows, default=-1) + 1,
        )
        self._board.end()

    def _show(self, marked: "Marked") -> None:
        self._board.begin()
        self._board.put(marked.row())
        self._board.end()
        self._publish()

    def show(self, marked: "Marked", *, changed: bool) -> None:
        """Put a publisher's row on the board; `changed`: readers are to look at once."""
        if changed:
            self._board.begin()
        self._board.put(marked.row())
        if changed:
            self._board.end()


class Marked:
    """One publisher's bit in the table and row on the board."""

    def __init__(self, book: Book, number: int, engine: int, rank: int, tier: int) -> None:
        self._book = book
        self.number = number
        self.engine = engine
        self.rank = rank
        self.tier = tier
        self._told = (State.COLD, 0, 0, 0, 0)

    def below(self, tier: int) -> "Marked":
        """A row and a bit for what the same publisher holds in a lower tier.  Raises FullError."""
        return self._book.open(self.engine, self.rank, tier)

    def close(self) -> None:
        """The publisher, which holds nothing any more, is gone."""
        self._book.close(self)

    def add(self, name: int) -> bool:
        """It holds a block; whether that is new."""
        return self._book.add(name, self.number)

    def discard(self, name: int) -> None:
        """It does not hold a block any more."""
        self._book.discard(name, self.number)

    def tell(self, state: State, block_size: int, ghosts: int, held: int, begun: int = 0) -> None:
        """How far it is believed, and how its blocks are; cheap when readers need not look at once."""
        told = (state, block_size, ghosts, held, begun)
        if told == self._told:
            return
        before, self._told = self._told, told
        self._book.show(self, changed=_seen(before) != _seen(told))

    def say_load(self, load: Load) -> None:
        """What its engine says of its load; readers find it when they look."""
        self._book.say_load(load, self.number)

    def row(self) -> Row:
        """What readers see."""
        state, block_size, ghosts, held, begun = self._told
        return Row(self.number, self.engine, self.rank, state, block_size, ghosts, held, begun, self.tier)


def _seen(told: tuple[State, int, int, int, int]) -> tuple[State, int, bool, int]:
    """What readers act on."""
    state, block_size, ghosts, _held, begun = told
    return state, block_size, ghosts > 0, begun
