"""Arrival processes keep their rate, their burstiness and their seed."""

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from statistics import fmean, pstdev

import pytest

from workload.arrivals import constant, gamma, instants, poisson

Process = Callable[[Random], Iterator[float]]
RATE = 8.0
PROCESSES: dict[str, tuple[Process, float]] = {
    "constant": (lambda rng: constant(RATE), 0.0),
    "poisson": (lambda rng: poisson(rng, RATE), 1.0),
    "gamma, bursty": (lambda rng: gamma(rng, RATE, 0.25), 2.0),
    "gamma, smooth": (lambda rng: gamma(rng, RATE, 4.0), 0.5),
}


@pytest.mark.parametrize("name", PROCESSES)
def test_the_mean_gap_is_one_over_the_rate_and_its_variation_is_the_process_s(name: str) -> None:
    process, variation = PROCESSES[name]
    gaps = list(islice(process(Random(5)), 20_000))
    assert fmean(gaps) == pytest.approx(1 / RATE, rel=0.05)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(variation, abs=0.08)


@pytest.mark.parametrize("name", PROCESSES)
def test_a_seed_gives_the_same_gaps_again(name: str) -> None:
    process, _ = PROCESSES[name]
    assert list(islice(process(Random(3)), 50)) == list(islice(process(Random(3)), 50))


def test_instants_rise_and_stop_before_the_end() -> None:
    at_s = list(instants(poisson(Random(1), 20.0), 5.0))
    assert at_s == sorted(at_s) and at_s[-1] < 5.0 and len(at_s) > 50


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_that_is_not_above_zero_is_refused_by_name(rate: float) -> None:
    with pytest.raises(ValueError, match="rate must be above 0"):
        constant(rate)
