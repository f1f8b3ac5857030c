"""Laws of a race while it runs: who is surely beaten at a look, and who leaves at a rung."""

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from analysis.stats.racing import halved, rung_reached, rung_units, surely_beaten

ALPHA, MARGIN = 0.05, log(1.03)
Units = dict[str, NDArray[np.float64]]


def noisy(effects: list[float], units: int, rng: np.random.Generator) -> Units:
    """Window means of candidates against one control that they share, in logs."""
    control = rng.normal(0.0, 0.05, units)
    return {f"c{k}": effect + rng.normal(0.0, 0.05, units) - control for k, effect in enumerate(effects)}


def apart(units: Units) -> Units:
    """The same where arms take turns: no two have a window in common."""
    number = len(units)
    return {
        name: np.where(np.arange(len(column)) % number == at, column, np.nan)
        for at, (name, column) in enumerate(units.items())
    }


def beaten(units: Units, starters: int = 0, together: bool = True) -> dict[str, str]:
    return surely_beaten(
        units, lambda *_: True, ALPHA, MARGIN, starters=starters or len(units), together=together
    )


def test_those_that_are_slower_for_sure_are_beaten_by_the_best_of_those_that_beat_them() -> None:
    units = noisy([-log(1.2), 0.0, log(1.2)], 300, np.random.default_rng(1))
    assert beaten(units) == {"c1": "c0", "c2": "c0"}
    assert beaten(apart(units), together=False) == {"c1": "c0", "c2": "c0"}


@pytest.mark.parametrize("together", [True, False])
def test_the_best_is_beaten_seldom_however_often_it_is_looked(together: bool) -> None:
    rng, runs, wrong = np.random.default_rng(2), 60, 0
    for _ in range(runs):
        units = noisy([0.0] * 4, 400, rng)
        units = units if together else apart(units)
        looks = ({name: column[:end] for name, column in units.items()} for end in range(40, 401, 20))
        wrong += any(
            surely_beaten(look, lambda *_: True, ALPHA, 0.0, starters=4, together=together) for look in looks
        )
    assert wrong / runs <= ALPHA + 3 * sqrt(ALPHA * (1 - ALPHA) / runs)


def test_nobody_is_beaten_below_fifteen_windows_that_both_have() -> None:
    units = noisy([-1.0, 0.0], 14, np.random.default_rng(3))
    assert beaten(units) == {}
    late = {name: np.concatenate((np.full(20, np.nan), column)) for name, column in units.items()}
    assert beaten({"c0": np.concatenate((np.zeros(20), units["c0"])), "c1": late["c1"]}) == {}


def test_one_that_may_not_beat_another_beats_nobody() -> None:
    units = noisy([-log(1.2), 0.0, log(1.2)], 300, np.random.default_rng(4))
    said = surely_beaten(units, lambda winner, _: winner != "c0", ALPHA, MARGIN, starters=3, together=True)
    assert said == {"c2": "c1"}


def test_those_that_left_still_have_their_part_of_alpha() -> None:
    """Else the looks at all that ever ran would be wrong more often than alpha together."""
    rng, differ = np.random.default_rng(5), 0
    for _ in range(40):
        units = noisy([-log(1.06), 0.0], 60, rng)
        alone, of_eight = beaten(units), beaten(units, starters=8)
        assert of_eight.items() <= alone.items()
        differ += alone != of_eight
    assert differ


@given(first=st.integers(15, 500), units=st.integers(0, 100_000))
def test_a_rung_is_reached_once_its_windows_are_there(first: int, units: int) -> None:
    rung = rung_reached(first, units)
    assert rung_units(first, rung) <= units < rung_units(first, rung + 1)


def test_every_stretch_between_rungs_costs_the_same_where_candidates_are_a_power_of_two() -> None:
    left = [len("abcdefgh") - len(halved("abcdefgh", 8, rung)) for rung in range(4)]
    assert left == [8, 4, 2, 1]
    lengths = [rung_units(15, rung + 1) - rung_units(15, rung) for rung in range(3)]
    assert [arms * windows for arms, windows in zip(left, lengths, strict=False)] == [120, 120, 120]


def test_without_a_first_rung_there_is_none() -> None:
    assert rung_reached(0, 10_000) == 0


@given(starters=st.integers(1, 40), gone=st.integers(0, 39), rung=st.integers(0, 8))
def test_at_a_rung_the_worst_leave_and_one_always_stays(starters: int, gone: int, rung: int) -> None:
    order = [str(at) for at in range(max(1, starters - gone))]
    leaves = halved(order, starters, rung)
    stays = order[: len(order) - len(leaves)]
    assert stays + leaves == order
    assert 1 <= len(stays) <= max(1, -(-starters // 2**rung))
    assert not leaves or len(stays) == -(-starters // 2**rung)
