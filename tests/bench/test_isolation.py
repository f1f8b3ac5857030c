"""How the benchmark of mirroring sees less noise: states forth and back, trimmed means, what is missing."""

import random

import pytest

from bench import figures
from bench.isolation import BOUNDS, CHUNK, CHUNK_HUSHED, HUSHED, Found, differences, levels, orders
from bench.mirrors import OFF, ON, STALLED, STATES


def test_a_round_with_bounds_goes_forth_and_back_and_another_in_any_order() -> None:
    rng = random.Random(3)
    for _ in range(20):
        forth, back = orders(rng, bounds=True)
        assert back == forth[::-1] and sorted(forth) == sorted(STATES)
    assert len({tuple(orders(rng, bounds=False)[0]) for _ in range(60)}) == 6


def test_a_trimmed_mean_leaves_out_a_fifth_on_either_side() -> None:
    assert figures.trimmed_mean([1.0, 2.0, 3.0, 4.0, 1000.0]) == 3.0
    assert figures.trimmed_mean([5.0]) == 5.0


def test_a_drift_counts_for_and_against_in_rounds_that_go_forth_and_back() -> None:
    """Each slice is 1 µs slower than the one before it, and mirroring adds 0.4."""
    found: Found = {}
    clock, rng = 0.0, random.Random(7)
    for _ in range(12):
        for states in orders(rng, bounds=True):
            for state in states:
                clock += 1.0
                figures_of = {"TTFT p50": 20.0 + clock + (0.4 if state == ON else 0.0), "failed": 0.0}
                if state != OFF:
                    figures_of |= {CHUNK: 40.5, CHUNK_HUSHED: 40.25}
                found.setdefault(("one", state), []).append({**figures_of, "asked": 10.0})
    added = figures.trimmed_difference(
        *([one["TTFT p50"] for one in found["one", state]] for state in (ON, OFF))
    )
    assert added.median == pytest.approx(0.4)
    said = differences(found, bounds=True)
    assert all(what in said for what in BOUNDS)
    assert said.count("0.25 [0.25, 0.25]") == 2, "what a chunk costs is compared within a slice"
    assert "0 of 240" in levels(found) and STALLED in levels(found)


def test_within_a_visit_loads_with_copies_and_without_lie_at_the_same_instants_on_average() -> None:
    """To the second power: a drift that bends counts for and against, too."""
    for power in (0, 1, 2):
        assert sum(at**power * (1 if silent else -1) for at, silent in enumerate(HUSHED)) == 0


def test_where_nothing_is_decided_it_says_how_many_slices_may() -> None:
    wide = figures.Estimate(0.5, -1.5, 2.5)
    assert figures.rounds_needed(wide, 1.5, 10) == 40  # half as wide
    assert figures.rounds_needed(figures.Estimate(1.6, 0.0, 3.0), 1.5, 10) is None
    assert figures.rounds_needed(figures.Estimate(0.0, -0.1, 0.1), 1.5, 10) == 10
