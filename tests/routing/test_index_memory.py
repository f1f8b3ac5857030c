"""What the memory of beginnings takes: a bound for each block and engine, whatever the prompts are like."""

import gc
import tracemalloc
from random import Random

import pytest

from routing.index import PrefixIndex

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


@pytest.mark.parametrize(("links", "turns"), [(1, 1), (2, 1), (8, 12), (32, 1)])
def test_a_block_at_an_engine_takes_at_most_250_bytes(links: int, turns: int) -> None:
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        index = filled(links, turns, 12_000)
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    held = sum(index.entries(engine) for engine in range(ENGINES))
    assert held >= 12_000 and used <= 250 * held
