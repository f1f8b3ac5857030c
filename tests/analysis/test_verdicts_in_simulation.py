"""How often are verdicts wrong?  Simulated experiments with fixed seeds, looked at after every window."""

from math import log, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.stats.correlation import autocorrelation_time
from analysis.verdict import Spread, interval, judge, log_margin, outputs_label

ALPHA, MARGIN = 0.05, log_margin(0.03)
RUNS = 400
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
    rho = {"independent": 0.0, "dependent": 0.9}[kind]
    for at in range(1, n):
        steps[:, at] = rho * steps[:, at - 1] + sqrt(1 - rho * rho) * steps[:, at]
    return steps


def windowed(values: Sequence, calibration: int) -> Sequence:
    """Means of windows of the length that the calibration's pairs ask for, as in `analysis.calibration`."""
    pairs = int(np.ceil(max(8.0, 5.0 * autocorrelation_time(values[:calibration]))))
    live = values[calibration:]
    return np.asarray(live[: len(live) // pairs * pairs].reshape(-1, pairs).mean(axis=1))


def labels(means: Sequence, alpha: float = ALPHA, margin: float = MARGIN) -> list[str]:
    """What is said after each window."""
    return [judge(interval(means[:units], alpha), margin) for units in range(2, len(means) + 1)]


def wrong(means: Sequence, alpha: float = ALPHA) -> bool:
    return any(label in ("FASTER", "SLOWER") for label in labels(means, alpha))


@pytest.mark.parametrize(
    ("kind", "calibration", "pairs"),
    [("independent", 100, 1200), ("heavy tails", 100, 1200), ("dependent", 400, 8000)],
)
def test_a_control_against_itself_is_rarely_called_different(kind: str, calibration: int, pairs: int) -> None:
    runs = noise(kind, RUNS, calibration + pairs, seed=1)
    false = sum(wrong(windowed(run, calibration)) for run in runs)
    assert false / RUNS <= allowed()


def test_without_windows_dependent_pairs_would_be_called_different() -> None:
    runs = noise("dependent", 40, 2000, seed=2)
    assert sum(wrong(run) for run in runs) / 40 > 0.5


@pytest.mark.parametrize(("kind", "calibration"), [("independent", 100), ("dependent", 400)])
@pytest.mark.parametrize("effect", [0.0, -0.2])
def test_the_interval_holds_the_truth_at_every_look(kind: str, calibration: int, effect: float) -> None:
    missed = 0
    for run in noise(kind, RUNS, calibration + 5000, seed=3):
        means = windowed(run + effect, calibration)
        looks = (interval(means[:units], ALPHA) for units in range(15, len(means) + 1))
        missed += any(look is not None and not look.lower <= effect <= look.upper for look in looks)
    # A tau estimated from the calibration is at times too short, so dependent windows may miss a little more.
    assert missed / RUNS <= allowed() + (0.05 if kind == "dependent" else 0.0)


def test_a_quarter_faster_is_found_at_the_first_chance() -> None:
    for run in noise("independent", 60, 500, seed=4):
        said = labels(windowed(run + log(0.75), 100), ALPHA / 3)
        assert "FASTER" in said[:25]
        assert "SLOWER" not in said


def test_ten_per_cent_is_found_within_a_thousand_pairs() -> None:
    found = sum(
        "FASTER" in labels(windowed(run + log(0.9), 100)) for run in noise("independent", 60, 1300, seed=5)
    )
    assert found >= 54


def test_no_difference_is_found_to_be_none() -> None:
    found = sum("EQUIVALENT" in labels(windowed(run, 100)) for run in noise("independent", 30, 6000, seed=6))
    assert found >= 27


def test_eight_candidates_against_one_control_are_together_rarely_called_different() -> None:
    runs, pairs, candidates = 120, 900, 8
    rng = np.random.default_rng(7)
    false = 0
    for _ in range(runs):
        control = rng.normal(0.0, 0.2, pairs)
        arms = rng.normal(0.0, 0.2, (candidates, pairs)) - control
        false += any(wrong(windowed(arm, 100), ALPHA / candidates) for arm in arms)
    assert false / runs <= allowed(runs)


def test_answers_that_differ_more_than_the_margin_are_rarely_called_the_same() -> None:
    rng = np.random.default_rng(8)
    false = 0
    for _ in range(RUNS):
        means = (rng.random((150, 10)) < 0.03).mean(axis=1)
        looks = (interval(means[:units], ALPHA / 2, prior=0.01) for units in range(15, len(means) + 1))
        false += any(outputs_label(look, Spread(0.0, 0.0)) == "SAME" for look in looks)
    assert false / RUNS <= allowed()
