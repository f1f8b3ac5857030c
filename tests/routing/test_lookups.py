"""How much is looked at for one prompt: a bound by its length and by who holds it, whatever else is held."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from math import log2
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.bridge.nodes import UNKNOWN, Nodes
from routing.bridge.paths import Path
from routing.events.board import State
from routing.events.table import FULL, Table, bits_for, words_for
from routing.index import PrefixIndex
from tests.routing.bridge.test_paths import chain_of
from tests.routing.events.memory import FACTOR, Memory

ENGINES = 16
U64 = (1 << 64) - 1


class Counted(list[int]):
    """A chain that counts how often one of its links is looked up."""

    def __init__(self, links: Iterable[int]) -> None:
        super().__init__(links)
        self.looked_up = 0

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        self.looked_up += 1
        return super().__getitem__(at)


def names(rng: Random, count: int) -> list[int]:
    return [rng.getrandbits(64) or 1 for _ in range(count)]


def by_halving(length: int, ends: Sequence[int]) -> float:
    """What halving takes for all ends at once: on each level a look into every stretch that has ends."""
    different = len(set(ends))
    return different * (log2(max(1.0, length / different)) + 2)


def test_the_table_of_events_is_asked_as_often_whatever_it_holds() -> None:
    """16 engines that hold 16 different beginnings."""
    asked = {}
    for held in (1_000, 100_000):
        for length in (500, 8_000):
            rng = Random(5)
            chain, memory = Counted(names(rng, length)), Memory()
            book = memory.book()
            ends = [int(length * ((number + 1) / ENGINES) ** 1.3) - number % 2 for number in range(ENGINES)]
            for engine, end in enumerate(ends):
                marked = book.open(engine, 0)
                for name in list(chain)[:end]:
                    marked.add(name)
                marked.tell(State.EXACT, 16, 0, end)
            other = book.open(ENGINES, 0)
            for name in names(rng, held):
                other.add(name)
            other.tell(State.EXACT, 16, 0, held)
            reader = memory.reader()
            assert reader.match(chain, 16) == {**dict(enumerate(ends)), ENGINES: 0}
            assert chain.looked_up <= by_halving(length, ends)
            asked[held, length] = chain.looked_up
    assert asked[1_000, 500] == asked[100_000, 500] and asked[1_000, 8_000] == asked[100_000, 8_000]


@given(st.integers(1, 400), st.lists(st.integers(1, 400), min_size=1, max_size=70))
def test_all_ends_are_found_in_what_halving_takes_for_those_that_differ(length: int, held: list[int]) -> None:
    rng = Random(length)
    chain = Counted(names(rng, length))
    ends = [min(end, length) for end in held]
    bits, words = bits_for(length), 1 + len(ends) // 64
    table = Table(memoryview(bytearray(words_for(bits, words) * 8)).cast("Q"), bits, words, FACTOR)
    for bit, end in enumerate(ends):
        for name in list(chain)[:end]:
            table.add(name, bit)
    assert table.ends(chain, (1 << len(ends)) - 1) == dict(enumerate(ends))
    assert chain.looked_up <= by_halving(length, ends)
    table.discard(chain[length // 2], 0)  # an engine evicts while it is asked: an answer, and an end to it
    found = table.ends(chain, (1 << len(ends)) - 1)
    assert found.keys() == set(range(len(ends))) and all(0 < end <= length for end in found.values())


def slots(words: memoryview, bits: int, name: int) -> int:
    """How many slots are looked at until the name is found, or a free one."""
    at, looked = (name * FACTOR & U64) >> (64 - bits), 1
    while words[2 * at] not in (0, name):
        at, looked = (at + 1) & ((1 << bits) - 1), looked + 1
    return looked


@pytest.mark.parametrize("held", [1_000, 30_000])
def test_a_block_is_found_or_missed_in_a_few_slots_of_a_table_as_full_as_it_gets(held: int) -> None:
    rng = Random(7)
    bits = next(bits for bits in range(8, 30) if FULL * (1 << bits) >= held)
    memory = memoryview(bytearray(words_for(bits, 1) * 8)).cast("Q")
    table = Table(memory, bits, 1, FACTOR)
    there = names(rng, int(FULL * (1 << bits)))
    assert all(table.add(name, 0) for name in there)
    found = [slots(memory, bits, name) for name in there]
    missed = [slots(memory, bits, name) for name in names(rng, 5_000)]
    # Knuth's figures for linear probing at a load of 0.55: 1.6 and 3.0.
    assert sum(found) / len(found) < 1.8 and sum(missed) / len(missed) < 3.5


def chained(rng: Random, links: int) -> tuple[list[int], list[int]]:
    return names(rng, links), list(accumulate(rng.choices(range(200, 1025), k=links)))


@pytest.mark.parametrize("links", [1, 33, 513])
def test_the_memory_of_what_was_sent_is_asked_as_often_whatever_it_holds(links: int) -> None:
    rng = Random(11)
    chain, ends = chained(rng, links)
    index, asked = PrefixIndex(1 << 60), []
    for engine in range(ENGINES):
        held = max(1, links * (engine + 1) // ENGINES)
        index.record(engine, chain[:held], ends[:held], 0.0)
    for others in (0, 20_000):
        while sum(index.entries(engine) for engine in range(ENGINES)) < others:
            index.record(rng.randrange(ENGINES), *chained(rng, 8), 0.0)
        counted = Counted(chain)
        found = index.match(counted, ends)
        assert found == {n: ends[max(1, links * (n + 1) // ENGINES) - 1] for n in range(ENGINES)}
        asked.append(counted.looked_up)
    assert asked[0] == asked[1] <= 1 + ENGINES * (1 + log2(links))
    counted = Counted(chain)
    index.beyond(counted, ends, dict.fromkeys(range(ENGINES), ends[links // 3]))
    assert counted.looked_up <= 1 + ENGINES, "of an engine of which is known what it holds one link is asked"


def test_of_what_few_hold_few_are_asked() -> None:
    """Of 1,000 engines, one holds something of the prompt."""
    rng, index = Random(12), PrefixIndex()
    chain, ends = chained(rng, 33)
    for engine in range(1_000):
        index.record(engine, *chained(rng, 4), 0.0)
    index.record(500, chain[:20], ends[:20], 0.0)
    counted = Counted(chain)
    assert index.match(counted, ends) == {500: ends[19]} and counted.looked_up <= 7


def test_what_was_learned_is_asked_as_often_whatever_was_learned() -> None:
    rng = Random(13)
    chain = names(rng, 513)
    asked: dict[int, list[int]] = {}
    for others in (0, 20_000):
        nodes = Nodes(1 << 20)
        number = nodes.young.keep(Path(None, 0, chain_of([1])))
        for link in (*chain[:500], *names(rng, others)):
            nodes.young.put(link, number, 0, UNKNOWN, 1, 0)
        for unknown in (0, 1, 13):
            counted = Counted(chain[: 500 + unknown])
            assert nodes.known(counted) == 500
            asked.setdefault(unknown, []).append(counted.looked_up)
    assert all(one == other for one, other in asked.values())
    # A talk's next turn costs by what is new in it, not by how long the talk is.
    assert [most for most, _ in asked.values()] == sorted(most for most, _ in asked.values())
    assert asked[0][0] == 1 and asked[1][0] <= 3 and asked[13][0] <= 9
    assert all(after - before <= 6 for (before, _), (after, _) in pairwise(asked.values()))
