"""What does the memory of beginnings cost: bytes an entry, µs a prompt, and does a look-up stay flat?

    python -m bench.index

Multi-turn chats of 8k tokens (32 KB) over 16 engines, each sent where it was before: per turn an answer and a
question. "blocks" are a prompt's links, of a KB at most, each counted once for each engine that holds it.
A memory that is full lets go of as many as come. How much room Python's tables then have to spare depends on
how far their number is from a power of two, so several sizes are tried, and the least and most shown: what
Python was asked for ("allocated"), and by how much the process grew, its allocator's rounding and unused
pages with it ("resident").
With `PYTHONPATH=build/fast:. python -P -m bench.index` the compiled form is measured (`make fast`).
"""

import gc
import multiprocessing
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from random import Random
from statistics import median
from time import perf_counter_ns

from bench.events import resident_bytes
from routing import index
from routing.index import PrefixIndex

ENGINES = 16
TURN_BYTES = (900, 300)  # an answer, a question
KB = 1024
ANSWER_BYTES = 900
SIZES = (50_000, 58_000, 66_000, 74_000, 82_000, 90_000)  # not twice the same room to spare
LONG, CHATS, TINY = "8k-token prompts", "chats of 12 turns", "tiny prompts"

Asked = tuple[list[int], list[int]]


def talk(rng: Random, links: int) -> Asked:
    """A prompt's chain and ends: `links` of a KB each."""
    return [rng.getrandbits(64) for _ in range(links)], [KB * (n + 1) for n in range(links)]


def turns(rng: Random, first: int, turns: int) -> Iterator[Asked]:
    """A chat's prompts: a beginning of `first` KB, then two messages more with every turn."""
    chain, ends = talk(rng, first)
    for _ in range(turns):
        yield list(chain), list(ends)
        for size in TURN_BYTES:
            chain.append(rng.getrandbits(64))
            ends.append(ends[-1] + size)


def asked(rng: Random, kind: str) -> Iterable[Asked]:
    """The prompts of one client."""
    if kind == CHATS:
        return turns(rng, 8, 12)
    return [talk(rng, 32 if kind == LONG else 1)]


def send(found: PrefixIndex, rng: Random, kind: str, at_s: float) -> list[Asked]:
    """A client's requests, each from its choice to its end."""
    engine, prompts = rng.randrange(ENGINES), list(asked(rng, kind))
    for chain, ends in prompts:
        found.record(engine, chain, ends, at_s)
        found.confirm(engine, chain)
        found.release(engine, chain)
        found.answer(engine, chain, rng.randrange(ANSWER_BYTES))
    return prompts


def held(found: PrefixIndex) -> int:
    return sum(found.entries(engine) for engine in range(ENGINES))


def filled(entries: int, rng: Random, kind: str) -> tuple[PrefixIndex, list[Asked]]:
    """An index of so many entries over all engines, and some of the prompts it holds."""
    found, at_s = PrefixIndex(1 << 60), 0.0
    some: list[Asked] = []
    while held(found) < entries:
        for _ in range(max(1, min(64, entries // 64))):
            at_s += 0.01
            prompts = send(found, rng, kind, at_s)
            if len(some) < 512:
                some.append(prompts[-1])
    return found, some


def grown(entries: int, rng: Random, kind: str) -> PrefixIndex:
    """An index that let go of nothing yet."""
    return filled(entries, rng, kind)[0]


def full(entries: int, rng: Random, kind: str) -> PrefixIndex:
    """An index that holds about so many entries, and was sent four times as many."""
    found, _ = filled(entries, rng, kind)
    for engine in range(ENGINES):
        found.set_capacity(engine, found.held_bytes(engine))
    sent, at_s = 0, 1e3
    while sent < 3 * entries:
        at_s += 0.01
        sent += len(send(found, rng, kind, at_s)[-1][0])
    return found


def allocated(make: Callable[[int, Random, str], PrefixIndex], entries: int, kind: str) -> float:
    """Bytes an entry, by what Python allocated, keys and all."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    found = make(entries, Random(1), kind)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / held(found)


def resident(make: Callable[[int, Random, str], PrefixIndex], entries: int, kind: str) -> float:
    """Bytes an entry, by how much a process of its own grew."""
    with multiprocessing.get_context("spawn").Pool(1) as alone:
        return alone.apply(_grew, (make, entries, kind))


def _grew(make: Callable[[int, Random, str], PrefixIndex], entries: int, kind: str) -> float:
    gc.collect()
    before = resident_bytes()
    found = make(entries, Random(1), kind)
    gc.collect()
    return (resident_bytes() - before) / held(found)


def timed(found: PrefixIndex, prompts: list[Asked]) -> tuple[float, float]:
    """Median ns of a look-up and of a renewal, over prompts that the index holds."""
    looked, touched = [], []
    match, record = found.match, found.record
    for _ in range(40):
        for chain, ends in prompts:
            start = perf_counter_ns()
            match(chain, ends)
            looked.append(perf_counter_ns() - start)
        for chain, ends in prompts:
            start = perf_counter_ns()
            record(3, chain, ends, 1e6)
            touched.append(perf_counter_ns() - start)
    return median(looked), median(touched)


def hot(engines: int, links: int) -> float:
    """Median ns of a look-up of a prompt that all engines hold."""
    rng, found = Random(2), PrefixIndex(1 << 60)
    chain, ends = talk(rng, links)
    for engine in range(engines):
        found.record(engine, chain, ends, 0.0)
    chain, ends = [*chain, 1, 2], [*ends, ends[-1] + 300, ends[-1] + 900]
    took = []
    for _ in range(2000):
        start = perf_counter_ns()
        found.match(chain, ends)
        took.append(perf_counter_ns() - start)
    return median(took)


def turn_us() -> float:
    """µs of look-up, record and confirm for one turn of a 32 KB chat."""
    rng, found, took = Random(3), PrefixIndex(64 << 20), []
    for _ in range(200):
        engine = rng.randrange(ENGINES)
        for chain, ends in turns(rng, 30, 6):
            start = perf_counter_ns()
            found.match(chain, ends)
            found.record(engine, chain, ends, 0.0)
            found.confirm(engine, chain)
            took.append(perf_counter_ns() - start)
    return median(took) / 1e3


def main() -> None:
    print("compiled" if index.__file__.endswith(".so") else "interpreted", sys.version.split()[0])
    for kind in (LONG, CHATS, TINY):
        for name, memory in (("allocated", allocated), ("resident", resident)):
            growing = memory(grown, 200_000, kind)
            steady = [memory(full, size, kind) for size in SIZES]
            told = f"{growing:6.0f} B an entry; full {min(steady):.0f} to {max(steady):.0f}"
            print(f"{kind:20} {name:10} {told}", flush=True)
    base = 0.0
    for entries in (1_000, 10_000, 100_000, 1_000_000):
        found, some = filled(entries, Random(1), CHATS)
        looked, touched = timed(found, some)
        base = base or looked
        times, again_us = looked / base, touched / 1e3
        print(
            f"{entries:9,} blocks: look-up {looked / 1e3:5.2f} µs ({times:.1f} x), renewal {again_us:5.2f} µs"
        )
    for links in (32, 512):
        tokens, took_us = links * KB // 4096, hot(ENGINES, links) / 1e3
        print(f"held by {ENGINES} engines, {tokens}k tokens: look-up {took_us:.1f} µs")
    print(f"a turn of a 32 KB chat: {turn_us():.2f} µs")


if __name__ == "__main__":
    main()
