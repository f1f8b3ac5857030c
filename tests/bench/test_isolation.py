"""How the benchmark of mirroring sees less noise: states forth and back, trimmed means, what is missing."""

import random

import pytest

from bench import figures
from bench.isolation import BOUNDS, Found, differences, levels, orders
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
    """Each slice is 1 µs dearer than the one before it, and mirroring adds 0.4."""
    found: Found = {}
    clock, rng = 0.0, random.Random(7)
    for _ in range(12):
        for states in orders(rng, bounds=True):
            for state in states:
                clock += 1.0
                cost = 20.0 + clock + (0.4 if state == ON else 0.0)
                figures_of = {"CPU a chunk": cost, "TTFT p50": 100.0, "failed": 0.0, "asked": 10.0}
                found.setdefault(("one", state), []).append(figures_of)
    added = figures.trimmed_difference(
        *([one["CPU a chunk"] for one in found["one", state]] for state in (ON, OFF))
    )
    assert added.median == pytest.approx(0.4)
    assert set(BOUNDS) <= set(
        differences(found, bounds=True).replace("  ", ": ").replace("\n", ": ").split(": ")
    )
    assert "0 of 240" in levels(found) and STALLED in levels(found)


def test_where_nothing_is_decided_it_says_how_many_slices_may() -> None:
    wide = figures.Estimate(0.5, -1.5, 2.5)
    assert figures.rounds_needed(wide, 1.5, 10) == 40  # half as wide
    assert figures.rounds_needed(figures.Estimate(1.6, 0.0, 3.0), 1.5, 10) is None
    assert figures.rounds_needed(figures.Estimate(0.0, -0.1, 0.1), 1.5, 10) == 10
