"""What one worker chose the others know: every entry once, whole, in order, or counted as missed."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleets.choices import RING_WORDS, Choices
from gateway.fleets.loads import LoadTable
from tests.gateway.test_charges import asked, worker

links = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40)


def rings(count: int) -> list["memoryview[int]"]:
    return [memoryview(bytearray(8 * (1 + RING_WORDS))).cast("Q") for _ in range(count)]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1000), links, st.booleans()), max_size=30))
def test_what_is_told_is_heard_once_and_in_order(told: list[tuple[int, int, list[int], bool]]) -> None:
    held = rings(3)
    writers, reader = [Choices(held, n) for n in range(2)], Choices(held, 2)
    for n, engine, chain, was_sent in told:
        if was_sent:
            writers[n].sent(engine, chain, range(1, len(chain) + 1))
        else:
            writers[n].refused(engine, chain)
    heard = reader.news()
    expected = [
        (engine, chain, list(range(1, len(chain) + 1))) if was_sent else (engine, chain[-1:], [])
        for writer in range(2)
        for n, engine, chain, was_sent in told
        if n == writer
    ]
    assert [(engine, list(chain), list(ends)) for engine, chain, ends in heard] == expected
    assert reader.news() == []


def test_a_ring_goes_round_and_who_reads_in_time_misses_nothing() -> None:
    held, rng = rings(2), Random(1)
    writer, reader = Choices(held, 0), Choices(held, 1)
    for n in range(20_000):
        chain = [rng.getrandbits(64) for _ in range(rng.randint(1, 60))]
        writer.sent(n % 7, chain, range(len(chain)))
        if not n % 50:
            heard = reader.news()
            assert heard[-1] == (n % 7, chain, list(range(len(chain))))
    assert held[0][0] > 5 * RING_WORDS and not reader.missed


def test_who_reads_too_seldom_misses_some_and_goes_on() -> None:
    held = rings(2)
    writer, reader = Choices(held, 0), Choices(held, 1)
    for _ in range(3000):
        writer.sent(1, range(100), range(100))
    assert reader.news() == [] and reader.missed == 1
    writer.sent(2, [5], [9])
    assert reader.news() == [(2, [5], [9])]


def test_a_prompt_too_long_for_a_ring_is_not_told() -> None:
    held = rings(2)
    writer, reader = Choices(held, 0), Choices(held, 1)
    writer.sent(1, range(RING_WORDS), range(RING_WORDS))
    writer.sent(1, [], [])
    writer.refused(1, [])
    assert reader.news() == []


def test_an_entry_that_is_not_whole_yet_is_read_the_next_time() -> None:
    held = rings(2)
    writer, reader = Choices(held, 0), Choices(held, 1)
    writer.sent(1, [5, 6], [7, 8])
    held[0][3], whole = 99, held[0][3]  # the count came before the words
    assert reader.news() == []
    held[0][3] = whole
    assert reader.news() == [(1, [5, 6], [7, 8])]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[LoadTable]:
    made = LoadTable.create(tmp_path / "loads", 2, 4)
    yield made
    made.close()


def test_a_talk_stays_at_its_engine_whichever_worker_it_comes_to(table: LoadTable) -> None:
    workers = [worker(table, n, 4, 1_000_000) for n in range(2)]
    for n in range(20):
        first, fleet = workers[n % 2]
        prompt = asked(7, n)
        chosen = first.choose(fleet, prompt, n + 0.0, ())
        assert chosen is not None
        first.prefilled(chosen[0], chosen[1].uncached_bytes)
        first.released(chosen[0], prompt, 0)
        second, other = workers[1 - n % 2]
        again = second.choose(other, prompt, n + 0.5, ())
        assert again is not None
        assert (again[0].id, again[1].uncached_bytes) == (chosen[0].id, 0)
        second.prefilled(again[0], 0)
        second.released(again[0], prompt, 0)
    assert [table.totals(n) for n in range(4)] == [(0, 0, 0, 0)] * 4


def test_what_was_refused_no_worker_takes_for_held(table: LoadTable) -> None:
    (first, fleet), (second, other) = (worker(table, n, 4, 1_000_000) for n in range(2))
    chosen = first.choose(fleet, asked(7, 0), 1.0, ())
    assert chosen is not None
    first.released(chosen[0], asked(7, 0), chosen[1].uncached_bytes, answered=False)
    again = second.choose(other, asked(7, 0), 2.0, ())
    assert again is not None and again[1].cached_bytes == 0
