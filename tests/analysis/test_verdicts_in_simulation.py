"""What is found, and how soon?  Simulated experiments with fixed seeds, looked at after every window."""

from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from analysis.calibration import pairs_per_window, pairs_to_see
from analysis.stats.correlation import autocorrelation_time, longest_autocorrelation_time
from analysis.stats.sequence import FEWEST_UNITS, asymptotic_bounds
from analysis.verdict import Spread, interval, judge, log_margin, outputs_label

ALPHA, MARGIN = 0.05, log_margin(0.03)
RUNS = 400
ASKED = 100  # pairs of calibration; the dependence may make it five times as many
Sequence = NDArray[np.float64]


def allowed(runs: int = RUNS, alpha: float = ALPHA) -> float:
    """alpha and three standard errors of a simulation of so many runs."""
    return alpha + 3 * sqrt(alpha * (1 - alpha) / runs)


def noise(kind: str, rows: int, n: int, seed: int) -> Sequence:
    """Log ratios with standard deviation about 0.3 and mean 0."""
    rng = np.random.default_rng(seed)
    if kind == "heavy tails":
        return np.asarray(np.clip(rng.standard_t(3, (rows, n)) * 0.17, -log(4), log(4)))
    steps = rng.normal(0.0, 0.3, (rows, n))
    rho = {"independent": 0.0, "somewhat dependent": 0.6, "dependent": 0.9}[kind]
    for at in range(1, n):
        steps[:, at] = rho * steps[:, at - 1] + sqrt(1 - rho * rho) * steps[:, at]
    return steps


def calibrated(values: Sequence) -> int:
    """How many pairs the calibration takes that is asked for a hundred."""
    taken = ASKED
    while taken < pairs_to_see(autocorrelation_time(values[:taken]), ASKED):
        taken += 10
    return taken


def windowed(values: Sequence) -> Sequence:
    """Means of windows of the length that the calibration's pairs ask for, as in `analysis.calibration`."""
    taken = calibrated(values)
    pairs = int(np.ceil(pairs_per_window(longest_autocorrelation_time(values[:taken]))))
    live = values[taken:]
    return np.asarray(live[: len(live) // pairs * pairs].reshape(-1, pairs).mean(axis=1))


def labels(means: Sequence, alpha: float = ALPHA, margin: float = MARGIN) -> list[str]:
    """What is said after each window from the fifteenth on, as `judge` says it (a law below)."""
    lower, upper = (ends[FEWEST_UNITS - 1 :] for ends in asymptotic_bounds(means, alpha))
    said = np.where((-margin < lower) & (upper < margin), "EQUIVALENT", "UNDECIDED")
    return [
        str(label) for label in np.where(upper < -margin, "FASTER", np.where(lower > margin, "SLOWER", said))
    ]


def wrong(means: Sequence, alpha: float = ALPHA) -> bool:
    return any(label in ("FASTER", "SLOWER") for label in labels(means, alpha))


def test_the_simulations_say_what_the_analysis_says() -> None:
    said = set[str]()
    for seed, effect in enumerate([0.0, 0.0, 0.04, -0.08, 0.2]):
        means = windowed(noise("somewhat dependent", 1, 3000, seed)[0] * 0.3 + effect)
        fifteen_on = range(FEWEST_UNITS, len(means) + 1)
        assert labels(means) == [judge(interval(means[:units], ALPHA), MARGIN) for units in fifteen_on]
        said |= set(labels(means))
    assert said == {"FASTER", "SLOWER", "EQUIVALENT", "UNDECIDED"}


def test_without_windows_dependent_pairs_would_be_called_different() -> None:
    runs = noise("dependent", 40, 2000, seed=2)
    assert sum(wrong(run) for run in runs) / 40 > 0.5


def test_a_quarter_faster_is_found_at_the_first_chance() -> None:
    for run in noise("independent", 60, 500, seed=4):
        said = labels(windowed(run + log(0.75)), ALPHA / 3)
        assert "FASTER" in said[:10]
        assert "SLOWER" not in said


def test_ten_per_cent_is_found_within_a_thousand_pairs() -> None:
    found = sum(
        "FASTER" in labels(windowed(run + log(0.9))) for run in noise("independent", 60, 1300, seed=5)
    )
    assert found >= 54


def test_no_difference_is_found_to_be_none() -> None:
    found = sum("EQUIVALENT" in labels(windowed(run)) for run in noise("independent", 30, 6000, seed=6))
    assert found >= 27


def test_answers_that_differ_more_than_the_margin_are_rarely_called_the_same() -> None:
    rng = np.random.default_rng(8)
    false = 0
    for _ in range(RUNS):
        means = (rng.random((150, 10)) < 0.03).mean(axis=1)
        looks = (interval(means[:units], ALPHA / 2, prior=0.01) for units in range(15, len(means) + 1, 3))
        false += any(outputs_label(look, Spread(0.0, 0.0)) == "SAME" for look in looks)
    assert false / RUNS <= allowed()
