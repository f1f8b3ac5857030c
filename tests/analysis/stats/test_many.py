"""Laws of many comparisons at once: alpha / K, e-BH, races."""

from math import log, sqrt

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from analysis.stats.many import e_bh, each_alpha
from analysis.stats.racing import Out, race

ALPHA = 0.05
EVIDENCE = st.lists(st.floats(0, 1e6), max_size=12)


def allowed(runs: int) -> float:
    return ALPHA + 3 * sqrt(ALPHA * (1 - ALPHA) / runs)


@given(evidence=EVIDENCE, alpha=st.floats(0.01, 0.5))
def test_e_bh_takes_the_strongest_and_as_many_as_its_rule_allows(evidence: list[float], alpha: float) -> None:
    found, total = e_bh(evidence, alpha), len(evidence)
    assert len(set(found)) == len(found)
    left = [e for at, e in enumerate(evidence) if at not in found]
    if found:
        weakest = min(evidence[at] for at in found)
        assert weakest >= total / (len(found) * alpha)
        assert all(e <= weakest for e in left)
    for more in range(len(found) + 1, total + 1):
        assert sorted(evidence, reverse=True)[more - 1] < total / (more * alpha)


@given(evidence=EVIDENCE, alpha=st.floats(0.01, 0.5))
def test_e_bh_finds_all_that_alpha_over_k_finds(evidence: list[float], alpha: float) -> None:
    alone = {at for at, e in enumerate(evidence) if e >= 1 / each_alpha(alpha, len(evidence))}
    assert alone <= set(e_bh(evidence, alpha))


def noisy(effects: list[float], units: int, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """Window means of candidates against one control that they share, in logs."""
    control = rng.normal(0.0, 0.05, units)
    return {f"c{k}": effect + rng.normal(0.0, 0.05, units) - control for k, effect in enumerate(effects)}


def test_in_a_race_of_equals_hardly_anyone_is_out() -> None:
    rng, runs = np.random.default_rng(1), 150
    false = sum(bool(race(noisy([0.0] * 8, 120, rng), ALPHA)) for _ in range(runs))
    assert false / runs <= allowed(runs)


def test_the_best_of_a_race_stays_and_the_slow_are_out_early() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        out = race(noisy([-log(1.10), 0.0, 0.0, log(1.10)], 200, rng), ALPHA, log(1.03))
        assert {one.name for one in out} == {"c1", "c2", "c3"}
        assert min(one.units for one in out) >= 15
        assert all(isinstance(one, Out) and one.by != one.name for one in out)


def test_a_race_of_nobody_or_of_one_puts_nobody_out() -> None:
    assert race({}, ALPHA) == []
    assert race({"only": np.zeros(50)}, ALPHA) == []
