"""The laws of the analysis, I19 to I27, in small simulations with fixed seeds; bench.verdicts has larger."""

from collections.abc import Callable
from functools import cache
from math import inf, log, sqrt
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from msgspec.structs import replace

from analysis.course import Course
from analysis.measure import PairRecord
from analysis.ranking import Trial
from analysis.report import report, to_json
from analysis.stats.bootstrap import quantile_effect
from analysis.stats.contrast import contrast
from analysis.stats.sequence import asymptotic_bounds, bernstein_bounds
from bench.verdicts.ours import ALPHA, Looks, failure_look, looks
from bench.verdicts.scenes import SCENES, SPREAD, Scene, draw, failures
from bench.verdicts.usual import PRACTICES
from tests.analysis.shell.frames import SPEC as LOGGED
from tests.analysis.shell.frames import pair
from tests.analysis.trials import altered, check, labels, named, ranked, records, trial_of

RUNS = 120
PAIRS = 2_500
FRESH = range(7_000, 7_000 + RUNS)
NAMED = {scene.name: scene for scene in SCENES}
ANSWERED = [scene for scene in SCENES if not scene.loses_slowest]


@cache
def looked_at(scene: Scene, effect: float = 0.0) -> list[Looks]:
    """What is seen of the candidate in each run, at each look."""
    return [looks(draw(scene, 500 + PAIRS, seed, effect))[0] for seed in FRESH]


def allowed(runs: int = RUNS, alpha: float = ALPHA) -> float:
    """alpha and three standard errors of a simulation of so many runs."""
    return alpha + 3 * sqrt(alpha * (1 - alpha) / runs)


@pytest.mark.parametrize("scene", ANSWERED, ids=lambda scene: scene.name)
def test_i19_a_control_against_itself_is_called_different_at_any_look_with_chance_alpha_at_most(
    scene: Scene,
) -> None:
    wrong = sum(said.says("either") is not None for said in looked_at(scene))
    assert wrong / RUNS <= allowed()


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_i19_two_arms_that_fail_alike_are_told_apart_with_chance_alpha_at_most(rho: float) -> None:
    scene = Scene("failures", rho=rho)
    wrong = sum(
        failure_look(failures(scene, PAIRS, seed, (0.05, 0.05)), 0, 8 if rho == 0.0 else 95) is not None
        for seed in FRESH
    )
    assert wrong / RUNS <= allowed()


def test_i19_no_candidate_of_eight_whose_failures_come_in_bursts_is_said_to_fail_otherwise_too_often() -> (
    None
):
    scene, share = Scene("failures"), ALPHA / 8
    wrong = 0
    for seed in FRESH:
        failed = failures(scene, PAIRS, seed, (0.05,) * 9, burst=3)
        looked = (failure_look(failed[[0, other]], 0, 9, share) for other in range(1, 9))
        wrong += any(said is not None for said in looked)
    assert wrong / RUNS <= allowed()


def test_i21_an_error_rate_that_doubles_from_five_per_cent_is_seen_within_500_pairs_in_the_median() -> None:
    scene = Scene("failures")
    seen = [failure_look(failures(scene, PAIRS, seed, (0.05, 0.10)), 0, 9) for seed in range(9_000, 9_400)]
    assert median(inf if said is None else said for said in seen) <= 500


@pytest.mark.parametrize("scene", ANSWERED, ids=lambda scene: scene.name)
def test_i20_the_interval_holds_the_mean_effect_so_far_at_every_look(scene: Scene) -> None:
    effect = log(1.05) if scene.drift else 0.0  # which adds itself to all means, but where it drifts
    missed = sum(said.misses() for said in looked_at(scene, effect))
    assert missed / RUNS <= allowed()


def test_i20_the_formulas_give_the_figures_that_were_published_for_them() -> None:
    x = np.random.default_rng(20).normal(0.0, 1.0, (1, 5_000))
    lower, upper = asymptotic_bounds(x, 0.05, optimal_units=500)
    assert (upper - lower)[0, 499] / 2 == pytest.approx(0.135, rel=0.08)
    assert (upper - lower)[0, 4_999] / 2 == pytest.approx(0.046, rel=0.05)
    low, high = bernstein_bounds(np.random.default_rng(1).normal(0.0, 0.32, 5_000), 2.0, 0.05)
    assert (high - low)[4_999] / 2 == pytest.approx(0.0162, abs=0.002)


def test_i21_five_per_cent_is_seen_and_called_within_the_pairs_predicted() -> None:
    """Log-spread 0.28, independent: about 340 pairs to leave out zero, 1,640 to be beyond the margin."""
    assert SPREAD == 0.28
    said = [looks(draw(NAMED["independent"], 500 + 5_000, seed, log(1.05)))[0] for seed in FRESH[:80]]
    zero = [one.excludes_zero() or 10**9 for one in said]
    called = [one.says("SLOWER") or 10**9 for one in said]
    assert np.median(zero) <= 600
    assert np.median(called) <= 2_500


def slowest(record: PairRecord) -> float:
    answer = record.answer("same")
    assert answer is not None and answer.e2e_ms is not None
    return answer.e2e_ms


@pytest.mark.parametrize("reason", ["unanswered", "pair_too_large", "unpackable"])
def test_i23_even_a_hundredth_that_is_given_up_gains_nothing_at_the_tail(reason: str) -> None:
    taken = records(1_500)
    bound = float(np.quantile([slowest(record) for record in taken if record.phase == "live"], 0.991))
    trial = trial_of([r for r in taken if r.phase != "live" or slowest(r) <= bound])
    lost = len(taken) - trial.ranking()["pairs"]
    trial.books(len(taken), len(taken) - lost, {reason: lost})
    same = named(trial.ranking(), "same")
    assert check(trial.ranking(), "missing") is False and 10 < lost < 15
    assert {verdict["label"] for verdict in same["verdicts"].values()} == {"UNDECIDED"}
    assert {said["p99"]["ratio"] for said in same["percentiles"].values()} == {None}
    assert same["percentiles"]["e2e"]["p99"]["refused"] == "withheld, as the verdict is"


@pytest.mark.parametrize("how", ["fails", "is cut", "never answers", "is given up"])
def test_i23_a_candidate_that_drops_its_slowest_twentieth_gains_nothing(how: str) -> None:
    taken = records(1_500)
    bound = float(np.quantile([slowest(record) for record in taken if record.phase == "live"], 0.95))

    def dropped(record: PairRecord) -> PairRecord:
        if record.phase != "live" or slowest(record) <= bound:
            return record
        if how == "fails":
            return altered(record, "same", fault="status 500", ttft_ms=None, itl_ms=None, tpot_ms=None)
        if how == "is cut":
            return altered(record, "same", fault="truncated")
        if how == "never answers":
            nothing = dict.fromkeys(("ttft_ms", "itl_ms", "tpot_ms", "e2e_ms", "status"))
            return altered(record, "same", fault="unanswered", **nothing)
        return replace(record, answers=tuple(a for a in record.answers if a.arm != "same"))

    trial = trial_of([dropped(record) for record in taken])
    if how == "is given up":  # by a shadow that did not say whose fault it was
        trial.books(1_500, 1_425, {"unanswered": 75})
        assert check(trial.ranking(), "missing") is False
    same = named(trial.ranking(), "same")
    assert all(verdict["label"] not in ("FASTER", "EQUIVALENT") for verdict in same["verdicts"].values())
    if how != "is given up":
        assert same["rates"]["errors"]["label"] == "MORE" and same["rank"] == 3


@pytest.mark.parametrize("scene", ["missing", "silent"])
def test_i23_in_simulation_it_is_never_called_faster_and_the_usual_practice_always_calls_it_so(
    scene: str,
) -> None:
    runs = [draw(NAMED[scene], 500 + PAIRS, seed) for seed in FRESH[:40]]
    assert not any(looks(run)[0].says("FASTER") for run in runs)
    for name in ("unpaired t-test, peeked at", "sequential GLR, as TensorZero"):
        said = [PRACTICES[name](run.apart, run.candidates[0][np.isfinite(run.candidates[0])]) for run in runs]
        assert sum(one is not None and one[1] < 0 for one in said) >= 36


def test_i24_exchanging_the_arms_negates_every_estimate_exactly() -> None:
    run = draw(NAMED["heavy tails"], 1_500, 24, 0.1)
    ours, theirs = run.control, run.candidates[0]
    there = np.array([contrast(a, b, None, None) for a, b in zip(ours, theirs, strict=True)])
    back = np.array([contrast(b, a, None, None) for a, b in zip(ours, theirs, strict=True)])
    assert (there == -back).all()
    (low, high), (back_low, back_high) = asymptotic_bounds(there, ALPHA), asymptotic_bounds(back, ALPHA)
    assert (low == -back_high).all() and (high == -back_low).all()
    blocks = np.arange(1_500) // 10
    once = quantile_effect(ours, theirs, blocks, 0.99, ALPHA)
    again = quantile_effect(theirs, ours, blocks, 0.99, ALPHA)
    assert once is not None and again is not None
    assert (once.effect, once.lower, once.upper) == (-again.effect, -again.upper, -again.lower)


def test_i24_a_control_as_slow_as_its_candidate_was_gets_the_inverse_ratio() -> None:
    def swapped(record: PairRecord) -> PairRecord:
        arms = {"control": "slow", "slow": "control"}
        answers = tuple(replace(a, arm=arms.get(a.arm, a.arm)) for a in record.answers)
        return record if record.phase != "live" else replace(record, answers=answers)

    taken = records(600)
    once, again = ranked(taken), ranked([swapped(record) for record in taken])
    there, back = (named(ranking, "slow")["verdicts"]["tpot"] for ranking in (once, again))
    assert there["ratio"] == pytest.approx(1 / back["ratio"], rel=1e-12)
    assert there["lower"] == pytest.approx(1 / back["upper"], rel=1e-12)
    assert (there["label"], back["label"]) == ("SLOWER", "FASTER")


def test_i25_the_verdict_from_the_log_is_the_live_one_byte_for_byte(tmp_path: Path) -> None:
    course = Course(LOGGED, tmp_path, now_ns=lambda: 10**15)
    course.load()
    for number in range(260):
        course.pair(pair(number, course.phase)[1])
    course.late({"timers": 400, "late": 1, "worst_ms": 51.0})
    live = to_json(course.ranking())
    course.close()
    assert to_json(report(tmp_path / LOGGED.name / "log.msgpack")) == live


REFUSED: dict[str, Callable[[], Trial]] = {
    "load_balance": lambda: trial_of(records(400, lambda r: altered(r, "quick", prompt_tokens=90))),
    "cache_parity": lambda: trial_of(
        records(600, lambda r: altered(r, "quick", cached_tokens=90 if int(r.id[1:]) > 500 else 10))
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_i26_an_unfair_comparison_is_refused_with_the_reason(name: str) -> None:
    """The whole table is in test_refusals.py."""
    ranking = REFUSED[name]().ranking()
    assert check(ranking, name) is False
    assert f"({name}; to mend it:" in named(ranking, "quick")["verdicts"]["ttft"]["withheld"]


def test_i26_no_p99_below_a_thousand_pairs_and_no_label_below_fifteen_windows() -> None:
    ranking = ranked(records(900))
    p99 = named(ranking, "quick")["percentiles"]["ttft"]["p99"]
    assert p99["ratio"] is None and p99["refused"].endswith("the first figures come at 1000")
    assert ranking["control"]["ttft_ms"]["p99"] is None
    early = ranked(records(250))
    assert early["windows"] < 15 and set(labels(early).values()) == {"UNDECIDED"}


def test_i27_of_eight_candidates_that_are_the_control_hardly_one_is_ever_called_different() -> None:
    runs = [draw(NAMED["independent"], 500 + 1_500, seed, candidates=8) for seed in FRESH]
    wrong = sum(any(one.misses() for one in looks(run)) for run in runs)
    assert wrong / RUNS <= allowed()
