"""Workers read what one process writes: who is believed, over which ranks, at which cost."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.events.board import MOST_PUBLISHERS, Load, State
from routing.events.book import Book, FullError, Marked
from routing.events.reader import SILENT_NS
from routing.events.table import MOST_PROBES, Table, bits_for, words_for
from routing.events.trust import PROOF
from tests.routing.events.memory import FACTOR, Memory

RNG = Random(5)


def names(count: int) -> list[int]:
    return [RNG.getrandbits(64) or 1 for _ in range(count)]


def publisher(
    book: Book, engine: int, held: Sequence[int], rank: int = 0, state: State = State.EXACT, size: int = 16
) -> Marked:
    marked = book.open(engine, rank)
    for name in held:
        marked.add(name)
    marked.tell(state, size if held else 0, 0, len(held))
    return marked


@given(st.lists(st.integers(0, 40), min_size=1, max_size=70), st.integers(0, 40))
def test_a_match_is_how_far_each_holds_the_chain(lengths: list[int], asked: int) -> None:
    """Also for more publishers than one word of a mask has bits."""
    chain = names(40)
    memory = Memory()
    book = memory.book()
    for engine, length in enumerate(lengths):
        publisher(book, engine, chain[:length])
    want = {engine: min(length, asked) for engine, length in enumerate(lengths)}
    assert memory.reader().match(chain[:asked], 16) == want


@pytest.mark.parametrize("gap", [0, 1, 700, 1023, 1024, 3000])
def test_where_holding_one_block_is_not_holding_all_before_it_no_gap_is_missed_in_bounded_work(
    gap: int,
) -> None:
    chain = names(3000)
    memory = Memory()
    book = memory.book()
    marked = publisher(book, 1, [*chain[:gap], *chain[gap + 1 :]])
    marked.tell(State.EXACT, 16, 1, len(chain))
    publisher(book, 2, chain)
    assert memory.reader().match(chain, 16) == {1: min(gap, 1024), 2: 3000}


def test_an_engine_with_ranks_is_worth_their_mean() -> None:
    chain = names(10)
    memory = Memory()
    book = memory.book()
    publisher(book, 7, chain, rank=0)
    second = publisher(book, 7, chain[:3], rank=1)
    reader = memory.reader()
    publisher(book, 8, chain)
    assert reader.match(chain, 16) == {7: 6, 8: 10}
    assert reader.apart(chain, 16) == {7: (10, 3)} and reader.apart(names(3), 32) == {}
    second.tell(State.DEGRADED, 16, 0, 3)
    assert reader.match(chain, 16) == {8: 10} and reader.at_least(chain, 16) == {7: 6}
    assert reader.apart(chain, 16) == {}


@pytest.mark.parametrize("state", State)
def test_only_the_exact_are_in_a_match(state: State) -> None:
    chain = names(4)
    memory = Memory()
    book = memory.book()
    publisher(book, 1, chain, state=state)
    publisher(book, 2, chain[:1])
    publisher(book, 3, [])
    publisher(book, 4, names(4), state=state)
    reader = memory.reader()
    exact = state is State.EXACT
    assert reader.match(chain, 16) == {2: 1, 3: 0} | ({1: 4, 4: 0} if exact else {})
    assert reader.at_least(chain, 16) == ({1: 4, 4: 0} if state is State.DEGRADED else {})
    assert set(reader.block_sizes()) == {2} | ({1, 4} if exact or state is State.DEGRADED else set())


def test_another_block_size_says_nothing() -> None:
    chain = names(4)
    memory = Memory()
    publisher(memory.book(), 1, chain)
    reader = memory.reader()
    assert reader.match(chain, 32) == {} and reader.block_sizes() == {1: 16}


def test_nothing_is_known_of_a_writer_that_is_silent_or_began_anew() -> None:
    chain = names(4)
    memory = Memory()
    book = memory.book()
    publisher(book, 1, chain)
    reader = memory.reader()
    assert reader.match(chain, 16) == {1: 4}
    reader.look(1 + SILENT_NS)
    assert reader.match(chain, 16) == reader.block_sizes() == {}
    book.beat(2 + SILENT_NS)
    reader.look(3 + SILENT_NS)
    assert reader.match(chain, 16) == {1: 4}
    memory.book()  # it died, and this is its next life
    reader.look(1)
    assert reader.match(chain, 16) == {} and reader.rows() == []


def test_a_table_grows_under_its_readers_and_forgets_names_that_nobody_holds() -> None:
    memory = Memory()
    book = memory.book()
    marked, reader = publisher(book, 1, names(1)), memory.reader()
    chain = names(20_000)
    first = book.size_bytes
    for round_ in range(5):
        for name in chain:
            marked.add(name)
        marked.tell(State.EXACT, 16, 0, len(chain) + round_)
        assert reader.match(chain, 16) == {1: len(chain)}
        for name in chain[1:]:
            marked.discard(name)
        assert reader.match(chain, 16) == {1: 1}
        chain = chain[:1] + names(19_999)
    assert first < book.size_bytes <= 16 * 20_000 / 0.16
    assert book.no_room == 0


def test_rows_are_used_again_and_there_is_an_end_to_them() -> None:
    book = Memory().book()
    rows = [book.open(n, 0) for n in range(MOST_PUBLISHERS)]
    with pytest.raises(FullError):
        book.open(0, 1)
    book.close(rows[5])
    assert book.open(9, 0).number == 5


def test_loads_are_summed_over_ranks_and_forgotten_when_old() -> None:
    memory = Memory()
    book, board = memory.book(), memory.board()
    for rank in range(2):
        publisher(book, 1, [], rank=rank)
    publisher(book, 2, [])
    reader = memory.reader()
    board.say_load(0, Load(50, 1, 2, 300, 1000, 40))
    assert reader.loads(40) == {}  # one rank has said nothing
    board.say_load(1, Load(45, 10, 20, 100, 1000, 5))
    assert reader.loads(40) == {1: Load(45, 11, 22, 400, 2000, 45)}
    assert reader.loads(46) == {}


def test_names_that_crowd_cannot_be_chosen_without_the_secret_and_cost_a_bounded_search() -> None:
    bits = bits_for(0)
    crowd = [(n << (64 - bits)) * pow(FACTOR, -1, 1 << 64) & (1 << 64) - 1 for n in [3] * 1]
    memory = bytearray(words_for(bits, 1) * 8)
    table = Table(memoryview(memory).cast("Q"), bits, 1, FACTOR)
    inverse = pow(FACTOR, -1, 1 << 64)
    crowd = [((3 << (64 - bits)) + n) * inverse % (1 << 64) for n in range(MOST_PROBES + 50)]
    taken = [table.add(name, 0) for name in crowd]
    assert taken == [True] * MOST_PROBES + [None] * 50
    assert all(table.mask(name) for name in crowd[:MOST_PROBES]) and not table.mask(crowd[-1])
    other = Table(memoryview(bytearray(len(memory))).cast("Q"), bits, 1, FACTOR ^ 0x5555_5555_5554)
    assert all(other.add(name, 0) for name in crowd)  # another secret: they are spread


def test_one_of_which_not_all_was_heard_is_exact_once_its_answers_find_no_more_than_was_foretold() -> None:
    """Until what is known of it is forgotten."""
    chain = names(4)
    memory = Memory()
    marked = publisher(memory.book(), 1, chain, state=State.DEGRADED)
    reader = memory.reader()
    assert reader.at_least(chain, 16) == {1: 4}
    for _ in range(30):
        reader.judged(1, 64, 640, 16)
    for n in range(PROOF):
        assert (1 in reader.match(chain, 16)) is (n >= PROOF - 1), n
        assert (1 in reader.at_least(chain, 16)) is (n < PROOF - 1), n
        reader.judged(1, 64, 64 + 16 * (n % 3), 16)
    marked.tell(State.DEGRADED, 16, 0, 4, 1)
    assert reader.match(chain, 16) == {} and reader.at_least(chain, 16) == {1: 4}
