"""What the memory of beginnings takes: a bound for each block and engine, whatever the prompts are like."""

import gc
import tracemalloc
from collections import deque
from collections.abc import Callable
from random import Random
from sys import getsizeof

import pytest

from routing.index import PrefixIndex
from routing.roots import tighten

ENGINES = 4


def filled(links: int, turns: int, entries: int) -> PrefixIndex:
    """Prompts of so many links, each continued by two links with every turn, on engines in turn."""
    rng, index, at_s = Random(1), PrefixIndex(1 << 60), 0.0
    while sum(index.entries(engine) for engine in range(ENGINES)) < entries:
        engine = rng.randrange(ENGINES)
        chain, ends = [rng.getrandbits(64) for _ in range(links)], [1000 * (n + 1) for n in range(links)]
        for _ in range(turns):
            at_s += 0.01
            index.record(engine, list(chain), list(ends), at_s)
            index.confirm(engine, chain)
            index.release(engine, chain)
            index.answer(engine, chain, rng.randrange(2000))
            chain += [rng.getrandbits(64), rng.getrandbits(64)]
            ends += [ends[-1] + 900, ends[-1] + 1200]
    return index


def aged(links: int, turns: int, entries: int) -> PrefixIndex:
    """As many, full since long: twice as many came, and as many went."""
    index = filled(links, turns, entries)
    for engine in range(ENGINES):
        index.set_capacity(engine, index.held_bytes(engine))
    rng, sent = Random(2), 0
    while sent < 2 * entries:
        engine = rng.randrange(ENGINES)
        chain, ends = [rng.getrandbits(64) for _ in range(links)], [1000 * (n + 1) for n in range(links)]
        index.record(engine, chain, ends, 1e3)
        index.release(engine, chain)
        sent += links
    return index


def bytes_each(make: Callable[[int, int, int], PrefixIndex], *of: int) -> float:
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        index = make(*of)
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return used / sum(index.entries(engine) for engine in range(ENGINES))


@pytest.mark.parametrize(("links", "turns"), [(1, 1), (2, 1), (8, 12), (32, 1)])
def test_a_block_at_an_engine_takes_at_most_225_bytes_of_a_memory_that_grows(links: int, turns: int) -> None:
    """Less than 250 with what the allocator rounds up: a key of 36 bytes to 48."""
    assert bytes_each(filled, links, turns, 6_000) <= 225


# How Python's tables happen to lie between two powers of two: as it is, and as they would be left.
@pytest.mark.parametrize(("links", "entries", "most"), [(1, 5_600, 225), (1, 8_000, 200), (8, 5_600, 135)])
def test_nor_does_it_of_one_that_is_full_and_lets_go_of_as_many_as_come(
    links: int, entries: int, most: int
) -> None:
    assert bytes_each(aged, links, 1, entries) <= most


@pytest.mark.parametrize("number", [100, 3_000, 8_000])
def test_a_table_is_as_tight_as_that_and_made_anew_seldom(number: int) -> None:
    rng, moved = Random(3), 0
    table = {rng.getrandbits(64): None for _ in range(number)}
    keys = deque(table)
    for _ in range(4 * number):
        del table[keys.popleft()]
        keys.append(rng.getrandbits(64))
        table[keys[-1]] = None
        before = getsizeof(table)
        tighten(table)
        if getsizeof(table) < before:
            moved += number
        assert getsizeof(table) <= 72 * number
    assert list(table) == list(keys) and 0 < moved <= 5 * 4 * number


def test_a_table_of_very_many_is_left_as_it_is_for_moving_it_would_be_noticed() -> None:
    table = dict.fromkeys(range(100_000))
    for key in range(80_000):
        del table[key]
    before = getsizeof(table)
    tighten(table)
    assert getsizeof(table) == before > 72 * len(table)


def test_a_first_link_that_several_engines_hold_is_each_ones_own() -> None:
    index = PrefixIndex()
    for engine in range(3):
        index.record(engine, [1, 2 + engine], [100, 200], 0.0)
    for engine in (1, 0, 2):
        assert index.match([1, 2 + engine], [100, 200])[engine] == 200
        index.forget(engine)
        assert engine not in index.match([1, 2 + engine], [100, 200])
    assert index.match([1], [100]) == {}
