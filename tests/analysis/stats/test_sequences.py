"""Laws of the confidence sequences: they hold the truth at every look, and cost what they are said to."""

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from analysis.stats.sequence import (
    FEWEST_UNITS,
    OF_LATENCIES,
    OF_SHARES,
    Groups,
    asymptotic_bounds,
    asymptotic_radius,
    bernstein_bounds,
    bernstein_interval,
)
from analysis.verdict import interval

ALPHA, RUNS, UNITS = 0.05, 600, 300
FINITE = st.floats(-3, 3)


def allowed(alpha: float = ALPHA, runs: int = RUNS) -> float:
    """alpha and three standard errors of a simulation of so many runs."""
    return alpha + 3 * sqrt(alpha * (1 - alpha) / runs)


def drawn(kind: str, seed: int) -> NDArray[np.float64]:
    """Runs of units with mean 0."""
    rng = np.random.default_rng(seed)
    if kind == "t3":
        return np.asarray(0.2 * rng.standard_t(3, (RUNS, UNITS)))
    return np.asarray(rng.normal(0.0, 0.3, (RUNS, UNITS)))


@given(
    values=st.lists(FINITE, min_size=1, max_size=40),
    alpha=st.floats(0.001, 0.2),
    prior=st.floats(0, 0.1),
    groups=st.sampled_from([OF_LATENCIES, OF_SHARES]),
)
def test_the_bounds_after_each_unit_are_those_of_the_interval_then(
    values: list[float], alpha: float, prior: float, groups: Groups
) -> None:
    lower, upper = asymptotic_bounds(np.array(values), alpha, prior=prior, groups=groups)
    assert (lower[0], upper[0]) == (-np.inf, np.inf)
    for units in range(2, len(values) + 1):
        found = interval(np.array(values[:units]), alpha, prior, groups)
        assert found is not None
        assert lower[units - 1] == pytest.approx(found.lower, abs=1e-6)
        assert upper[units - 1] == pytest.approx(found.upper, abs=1e-6)


@given(values=st.lists(FINITE, min_size=2, max_size=40))
def test_negated_units_have_the_negated_interval(values: list[float]) -> None:
    there, back = (interval(np.array(v), ALPHA) for v in (values, [-value for value in values]))
    assert there is not None and back is not None
    assert (there.mean, there.radius) == (-back.mean, back.radius)


@pytest.mark.parametrize("kind", ["normal", "t3"])
def test_the_asymptotic_sequence_holds_the_truth_at_every_look_from_the_fifteenth_on(kind: str) -> None:
    lower, upper = asymptotic_bounds(drawn(kind, 1), ALPHA)
    missed = ((lower > 0) | (upper < 0))[:, FEWEST_UNITS - 1 :].any(axis=1).mean()
    assert missed <= allowed()


def test_the_bernstein_sequence_holds_the_truth_whatever_the_distribution() -> None:
    rng = np.random.default_rng(2)
    missed = 0
    for _ in range(200):  # one unit in fifty is at the bound: no normal approximation would do
        units = np.where(rng.random(UNITS) < 0.02, 1.0, -1.0 / 49)
        lower, upper = bernstein_bounds(units, 1.0, ALPHA)
        missed += bool(((lower > 0) | (upper < 0)).any())
    assert missed / 200 <= allowed(runs=200)


def test_peeking_costs_between_one_and_a_half_and_one_and_two_thirds_of_the_width() -> None:
    for units in (500, 5000):
        price = asymptotic_radius(1.0, units, ALPHA, optimal_units=500) / (1.96 / sqrt(units))
        assert 1.5 < price < 1.67


def test_without_assumptions_three_per_cent_takes_hundreds_of_windows_even_without_noise() -> None:
    """Why labels come from the asymptotic sequence."""

    def is_called(units: int) -> bool:
        lower, upper = bernstein_interval(np.zeros(units), log(4.0), ALPHA)
        return max(-lower, upper) < log(1.03)

    first = next(units for units in range(100, 1000) if is_called(units))
    assert 300 < first < 700
