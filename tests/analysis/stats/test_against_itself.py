"""The control against itself: a calibration sees the dependence, and hardly calls a fair control unfair."""

from math import exp, sqrt
from random import Random
from statistics import NormalDist

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from analysis.calibration import Calibrating, against_itself, next_look
from analysis.spec import ExperimentSpec
from bench.verdicts.ours import fair_is_withheld
from bench.verdicts.scenes import Scene, draw
from bench.verdicts.scores import Depends, Kind, scored
from tests.analysis.fleet import pair_record


def withheld(values: NDArray[np.float64]) -> bool:
    found = against_itself(values)
    return not found.lower <= 0.0 <= found.upper


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.9])
def test_a_fair_control_is_called_unfair_in_one_of_a_hundred_calibrations_at_most(rho: float) -> None:
    runs = 400
    wrong = sum(fair_is_withheld(draw(Scene("fair", rho=rho), 500, seed)) for seed in range(runs))
    assert wrong / runs <= 0.01 + 3 * sqrt(0.01 * 0.99 / runs)


def test_a_control_that_answers_a_fifth_slower_the_second_time_is_found() -> None:
    rng = np.random.default_rng(1)
    assert withheld(rng.normal(0.2, 0.28, 100))
    assert not withheld(rng.normal(0.0, 0.28, 100))


def test_where_neighbours_depend_the_interval_is_as_wide_as_four_spans_are_apart() -> None:
    spans = np.array([0.1, -0.1, 0.1, -0.1])
    noise = np.random.default_rng(0).normal(0.0, 0.05, (4, 100))
    apart = noise - noise.mean(axis=1, keepdims=True) + spans[:, None]
    student = 7.453 * float(spans.std(ddof=1)) / 2
    assert against_itself(apart.ravel()).radius == pytest.approx(student)
    assert against_itself(apart.ravel(order="F")).radius < student / 2  # the same values, mixed


def test_whether_it_is_enough_is_looked_at_after_twice_as_many_pairs_and_at_the_most() -> None:
    looks = [100]
    while looks[-1] < 500:
        looks.append(next_look(looks[-1], 100))
    assert looks == [100, 200, 400, 500]
    assert next_look(20, 0) == 40


def test_where_all_answers_are_alike_it_goes_on_to_the_most_and_one_that_differs_ends_it_as_asked() -> None:
    ends = []
    for differs in (None, 30):
        calibrating = Calibrating(ExperimentSpec("trial", "fleet", ("quick",), calibration_s=1.0))
        wanted = []
        while not calibrating.enough():
            record = pair_record(calibrating.pairs, {}, phase="calibration", rng=Random(1))
            record.outputs["control"]["first_divergence"] = float(calibrating.pairs == differs)
            calibrating.add(record)
            wanted.append(calibrating.wanted_pairs)
        ends.append((calibrating.pairs, sorted(set(wanted)), calibrating.progress))
    assert ends == [(500, [100, 200, 400, 500], 1.0), (100, [100], 1.0)]


def test_a_control_whose_runs_of_others_a_short_calibration_misses_makes_no_fair_candidate_diverge() -> None:
    """A fifth differs from the first letter on, in runs of ten: in 7 of 100 with a calibration that ends
    where all was alike in as many pairs as were asked for."""
    others = Kind("others", "share", lambda z: (z > NormalDist().inv_cdf(0.8)).astype(float), 0.2)
    runs_of_ten, runs = Depends("in runs of 10", runs_of=10), 600
    said = sum(scored(others, runs_of_ten, 2000, seed, decides=others).diverges for seed in range(runs))
    assert said / runs <= 0.05


def test_a_calibration_that_depends_on_itself_ends_at_one_of_these_looks_alone() -> None:
    ends = []
    for seed in range(6):
        calibrating = Calibrating(ExperimentSpec("trial", "fleet", ("quick",), calibration_s=1.0))
        rng, noise = Random(seed), 0.0
        while not calibrating.enough():
            noise = 0.9 * noise + rng.gauss(0.0, 0.1)
            record = pair_record(calibrating.pairs, {}, phase="calibration", rng=Random(1))
            once, again = record.answers
            calibrating.add(replace(record, answers=(once, replace(again, tpot_ms=20.0 * exp(noise)))))
        ends.append(calibrating.pairs)
    assert set(ends) <= {100, 200, 400, 500} and max(ends) > 100
