"""How often are outputs, failures and many arms wrong where nothing differs?  I19, I20, I26 and I27.

Small simulations with fixed seeds; `python -m bench.verdicts` has the larger.
"""

from dataclasses import replace
from functools import cache
from math import log, sqrt

import pytest

from analysis.metrics._metric import Unit
from bench.verdicts.ours import ALPHA, failure_look, fair_is_withheld, looks
from bench.verdicts.scenes import SCENES, Scene, draw, failures
from bench.verdicts.scores import (
    DEPENDENCES,
    DIVERGENCE,
    KINDS,
    Depends,
    Kind,
    Said,
    falsely_the_same,
    falsely_within,
    pairs_until,
    pairs_until_the_same,
    scored,
)

RUNS, PAIRS = 120, 1_500
FRESH = range(31_000, 31_000 + RUNS)
CANDIDATES = 8

kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
dependences = pytest.mark.parametrize("depends", DEPENDENCES, ids=lambda depends: depends.name)


def allowed(alpha: float = ALPHA, runs: int = RUNS) -> float:
    """alpha and three standard errors of a simulation of so many runs."""
    return alpha + 3 * sqrt(alpha * (1 - alpha) / runs)


@cache
def said(kind: Kind, depends: Depends) -> tuple[Said, ...]:
    return tuple(scored(kind, depends, PAIRS, seed) for seed in FRESH)


@dependences
def test_i19_a_candidate_that_answers_as_the_control_does_is_said_to_diverge_with_chance_alpha_at_most(
    depends: Depends,
) -> None:
    assert sum(one.diverges for one in said(DIVERGENCE, depends)) / RUNS <= allowed()


@kinds
@dependences
def test_i19_no_output_metric_leaves_the_floor_where_nothing_differs_more_often_than_alpha(
    kind: Kind, depends: Depends
) -> None:
    assert sum(one.left_floor for one in said(kind, depends)) / RUNS <= allowed()


@kinds
@dependences
def test_i20_the_interval_of_an_output_metric_holds_its_mean_at_every_look(
    kind: Kind, depends: Depends
) -> None:
    assert sum(one.missed for one in said(kind, depends)) / RUNS <= allowed()


@dependences
def test_i20_answers_that_differ_beyond_the_margin_are_hardly_ever_called_the_same(depends: Depends) -> None:
    """Where the control never differs from itself nothing tells in what runs a candidate's may."""
    wrong = sum(falsely_the_same(0.03, depends, PAIRS, seed) for seed in FRESH)
    assert wrong / RUNS <= allowed()


def test_answers_that_never_differ_are_called_the_same_within_five_thousand_pairs() -> None:
    needed = pairs_until_the_same(10_000)
    assert needed is not None and needed <= 5_000


BOUNDS: list[tuple[Unit, float]] = [("ratio", log(1.05)), ("ratio", log(1.1)), ("nats", 0.02), ("nats", 0.05)]
bounds = pytest.mark.parametrize(("unit", "bound"), BOUNDS)


@bounds
@dependences
def test_i20_a_mean_just_beyond_a_bound_is_hardly_ever_said_to_be_within_it(
    unit: Unit, bound: float, depends: Depends
) -> None:
    """Few pairs score the most that counts, all others nothing: the worst that ratios and nats can do."""
    wrong = sum(falsely_within(unit, bound, depends, 5_000, seed) for seed in FRESH)
    assert wrong / RUNS <= allowed()


@bounds
def test_ratios_and_nats_of_answers_that_never_differ_are_within_a_bound_after_five_thousand_pairs(
    unit: Unit, bound: float
) -> None:
    needed = pairs_until(unit, bound, 10_000)
    assert needed is not None and needed <= 5_000


FAILING = {
    "AR(1) 0.6": (Scene("failures", rho=0.6), 28, 1),
    "AR(1) 0.9": (Scene("failures", rho=0.9), 83, 1),
    "in bursts of 3": (Scene("failures"), 9, 3),
    "in bursts of 10": (Scene("failures"), 9, 10),
}


@pytest.mark.parametrize("name", FAILING)
def test_i27_none_of_eight_candidates_that_fail_as_the_control_does_is_told_from_it_too_often(
    name: str,
) -> None:
    scene, size, burst = FAILING[name]
    wrong = 0
    for seed in FRESH:
        failed = failures(scene, PAIRS, seed, (0.05,) * (1 + CANDIDATES), burst=burst)
        looked = (failure_look(failed[[0, other]], 0, size, ALPHA / CANDIDATES) for other in range(1, 9))
        wrong += any(one is not None for one in looked)
    assert wrong / RUNS <= allowed()


DEPENDING = [scene for scene in SCENES if scene.name in ("AR(1) 0.6", "AR(1) 0.9", "heavy tails", "drift")]


@pytest.mark.parametrize("scene", DEPENDING, ids=lambda scene: scene.name)
def test_i27_of_eight_candidates_hardly_one_is_called_different_whatever_pairs_depend_on(
    scene: Scene,
) -> None:
    seeds = FRESH[:60]
    runs = [looks(draw(scene, 500 + PAIRS, seed, candidates=CANDIDATES)) for seed in seeds]
    assert sum(any(one.misses() for one in each) for each in runs) / len(seeds) <= allowed(runs=len(seeds))
    assert sum(any(one.says("either") for one in each) for each in runs) / len(seeds) <= allowed(
        runs=len(seeds)
    )


@pytest.mark.parametrize("scene", SCENES[:4], ids=lambda scene: scene.name)
def test_i26_a_fair_calibration_is_hardly_ever_refused(scene: Scene) -> None:
    refused = sum(fair_is_withheld(draw(scene, 500, seed)) for seed in FRESH)
    assert refused / RUNS <= allowed(0.01)


@pytest.mark.parametrize("scene", SCENES[:4], ids=lambda scene: scene.name)
def test_i26_a_control_that_is_not_like_itself_is_refused(scene: Scene) -> None:
    """Its second answer takes twice as long."""
    refused = 0
    for seed in FRESH[:40]:
        run = draw(scene, 500, seed)
        refused += fair_is_withheld(replace(run, twin=2.0 * run.twin))
    assert refused / 40 >= 0.9
