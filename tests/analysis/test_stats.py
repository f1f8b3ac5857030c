"""Laws of the statistics, one pair and one sequence at a time."""

from itertools import accumulate
from math import exp, inf, isfinite, log
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.stats.contrast import PENALTY, contrast, ranked
from analysis.stats.correlation import autocorrelation_time
from analysis.stats.quantile import Latest
from analysis.stats.sequence import asymptotic_radius, bernstein_interval
from analysis.stats.windows import Windows

LATENCY = st.one_of(st.none(), st.floats(1e-3, 1e6))
FAULT = st.sampled_from([None, "timeout", "truncated", "cancelled"])


@given(ours=LATENCY, theirs=LATENCY, our_fault=FAULT, their_fault=FAULT)
def test_exchanging_the_arms_negates_a_contrast_exactly(
    ours: float | None, theirs: float | None, our_fault: str | None, their_fault: str | None
) -> None:
    there = contrast(ours, theirs, our_fault, their_fault)
    back = contrast(theirs, ours, their_fault, our_fault)
    assert there == (None if back is None else -back)
    if there is not None and not isfinite(there):
        assert (our_fault, their_fault)[there > 0] is not None


def test_a_failure_counts_against_its_own_arm() -> None:
    assert contrast(100.0, None, None, "timeout") == inf
    assert contrast(None, 100.0, "truncated", None) == -inf
    assert contrast(100.0, 90.0, None, "truncated") == inf  # even if it was quick to fail


def test_a_pair_that_says_nothing_gives_none() -> None:
    assert contrast(100.0, 100.0, "timeout", "timeout") is None
    assert contrast(None, None, None, "timeout") is None  # the control has no such latency either
    assert contrast(100.0, None, None, None) is None
    assert contrast(100.0, 50.0, None, "cancelled") is None


def test_a_quarter_faster_is_log_three_quarters() -> None:
    assert contrast(20.0, 15.0, None, None) == pytest.approx(log(0.75))


def test_a_large_effect_is_as_large_as_it_is() -> None:
    assert contrast(20.0, 2000.0, None, None) == pytest.approx(log(100.0))
    assert contrast(2000.0, 20.0, None, None) == pytest.approx(-log(100.0))


@given(values=st.lists(st.sampled_from([0.0, 0.1, -0.2, 5.0, -6.0, inf, -inf]), min_size=1))
def test_a_failure_takes_the_worst_rank_and_no_less_than_four_times(values: list[float]) -> None:
    numbers = ranked(values)
    finite = [value for value in values if isfinite(value)]
    for value, number in zip(values, numbers, strict=True):
        if isfinite(value):
            assert number == value
        else:
            worst = max([PENALTY, *finite]) if value > 0 else min([-PENALTY, *finite])
            assert number == worst
    assert ranked(-value for value in values) == [-number for number in numbers]


def test_the_asymptotic_radius_has_the_published_size() -> None:
    assert asymptotic_radius(1.0, 500, 0.05, optimal_units=500) == pytest.approx(0.135, abs=0.002)
    assert asymptotic_radius(1.0, 5000, 0.05, optimal_units=500) == pytest.approx(0.046, abs=0.001)


@given(units=st.integers(2, 5000), alpha=st.floats(0.001, 0.2), sd=st.floats(0.01, 2))
def test_radii_shrink_with_units_and_grow_with_certainty_and_spread(
    units: int, alpha: float, sd: float
) -> None:
    radius = asymptotic_radius(sd, units, alpha)
    assert asymptotic_radius(sd, units + 1, alpha) < radius
    assert asymptotic_radius(sd, units, alpha / 2) > radius
    assert asymptotic_radius(2 * sd, units, alpha) == pytest.approx(2 * radius)


def test_the_bernstein_interval_has_the_published_size() -> None:
    x = np.random.default_rng(1).normal(0.0, 0.32, 5000)
    low, high = bernstein_interval(x, 2.0, 0.05)
    assert (high - low) / 2 == pytest.approx(0.0162, abs=0.002)
    low, high = bernstein_interval(x[:500], 2.0, 0.05)
    assert (high - low) / 2 == pytest.approx(0.069, abs=0.005)


@given(values=st.lists(st.floats(-3, 3), max_size=60))
def test_the_bernstein_interval_stays_within_its_bounds(values: list[float]) -> None:
    low, high = bernstein_interval(np.array(values), PENALTY, 0.05)
    assert -PENALTY <= low <= high <= PENALTY


def autoregressive(rho: float, n: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    rng = Random(seed)
    steps = [rng.gauss(0, (1 - rho * rho) ** 0.5) for _ in range(n)]
    return np.array(
        list(accumulate(steps, lambda last, step: rho * last + step, initial=rng.gauss(0, 1)))[1:]
    )


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_tau_of_an_ar1_sequence_is_what_the_formula_says(rho: float) -> None:
    assert autocorrelation_time(autoregressive(rho, 20_000, 1)) == pytest.approx(
        (1 + rho) / (1 - rho), rel=0.2
    )


def test_tau_is_at_least_1_and_1_where_nothing_can_be_said() -> None:
    assert autocorrelation_time(np.array([1.0, -1.0] * 50)) == 1.0
    assert autocorrelation_time(np.zeros(50)) == 1.0
    assert autocorrelation_time(np.full(500, 0.99)) == 1.0  # whose mean is not 0.99 to the last digit
    assert autocorrelation_time(np.empty(0)) == 1.0


def test_percentiles_are_none_where_too_few_answers_came() -> None:
    latest = Latest()
    assert latest.percentiles() == {"p50": None, "p95": None, "p99": None}
    latest.add(np.arange(1.0, 1000.0))
    assert latest.percentiles()["p50"] == 500.0
    assert latest.percentiles()["p99"] is None
    latest.add(np.array([1000.0]))
    assert latest.percentiles()["p99"] == pytest.approx(990.0, abs=1.0)


@pytest.mark.parametrize("at_once", [1, 3, 7, 10, 11, 25, 100])
def test_only_the_latest_answers_are_kept_however_many_come_at_once(at_once: int) -> None:
    latest = Latest(size=10)
    for begin in range(0, 100, at_once):
        latest.add(np.arange(begin, min(begin + at_once, 100), dtype=np.float64))
    assert len(latest) == 10
    assert [latest.quantile(share) for share in (0.0, 0.5, 1.0)] == [90.0, 94.5, 99.0]


S = 10**9
PAIRS = st.lists(st.tuples(st.integers(0, 20 * S), st.floats(-1, 1)), min_size=1, max_size=80)


@given(pairs=PAIRS, seed=st.integers(0, 99))
def test_the_order_of_arrival_within_windows_leaves_no_trace(
    pairs: list[tuple[int, float]], seed: int
) -> None:
    def means(order: list[tuple[int, float]]) -> list[float]:
        windows = Windows(2 * S, 30 * S)
        for at_ns, value in order:
            windows.add(at_ns, {"d": value})
        windows.add(100 * S, {})
        return [float(mean) for mean in windows.means("d")]

    shuffled = Random(seed).sample(pairs, len(pairs))
    assert means(pairs) == means(shuffled)


@given(pairs=PAIRS)
def test_windows_of_fewer_than_five_pairs_are_dropped_whatever_they_say(
    pairs: list[tuple[int, float]],
) -> None:
    windows = Windows(2 * S, 30 * S)
    for at_ns, value in pairs:
        windows.add(at_ns, {"d": value})
    windows.add(100 * S, {})
    keys = [at_ns // (2 * S) for at_ns, _ in pairs]
    assert windows.units == sum(keys.count(key) >= 5 for key in set(keys))


def test_a_window_closes_when_a_pair_came_long_enough_after_it() -> None:
    windows = Windows(2 * S, 5 * S)
    assert not any(windows.add(at, {"d": 1.0}) for at in (0, 1, 2, 3, 4, 2 * S, 6 * S))
    assert windows.units == 0
    assert windows.add(7 * S, {"d": 1.0})
    assert windows.units == 1


def test_a_late_pair_joins_its_closed_window() -> None:
    windows = Windows(2 * S, 2 * S)
    for at_ns in (0, 1, 2, 3, 4):
        windows.add(at_ns, {"d": 1.0})
    windows.add(40 * S, {"d": 0.0})
    assert windows.means("d").tolist() == [1.0]
    windows.add(5, {"d": 4.0, "new": 2.0})
    assert windows.means("d").tolist() == [1.5]
    assert windows.means("new").tolist() == [2.0]
    for late in range(5):
        windows.add(10 * S + late, {"d": 3.0})
    assert windows.means("d").tolist() == [1.5, 3.0]
    assert windows.course("d", 1) == [(12 * S, 3.0)]


@given(
    values=st.lists(st.sampled_from([0.1, -0.2, 3.0, -4.0, inf, -inf]), min_size=5, max_size=30),
    late=st.integers(0, 25),
)
def test_a_windows_mean_is_that_of_its_answers_with_failures_in_the_worst_rank(
    values: list[float], late: int
) -> None:
    windows, negated = Windows(2 * S, 2 * S), Windows(2 * S, 2 * S)
    sooner = values[: max(5, len(values) - late)]
    for at, value in enumerate(sooner):
        windows.add(at, {"d": value})
        negated.add(at, {"d": -value})
    for closing in (windows, negated):
        closing.add(40 * S, {})
    for value in values[len(sooner) :]:  # after the window has closed
        windows.add(1, {"d": value})
        negated.add(1, {"d": -value})
    means = windows.means("d")
    assert means.tolist() == pytest.approx([sum(ranked(values)) / len(values)])
    assert negated.means("d").tolist() == [-means[0]]


def test_a_latency_without_values_has_no_windows() -> None:
    windows = Windows(2 * S, 2 * S)
    for at_ns in range(10):
        windows.add(at_ns, {"d": exp(1)})
    windows.add(40 * S, {})
    assert windows.means("other").tolist() == []
    assert windows.pairs_per_unit("other") == 0.0
    assert windows.pairs_per_unit("d") == 10.0
