"""I22: a mirror with a tenth of the load makes any engine look faster: that is shown, named, not believed.

Three engines of one configuration, emulated on a clock of their own: production has all the traffic, the
control and the candidate the same tenth of it.  ITL = 8 ms + 0.1 ms for each running sequence.
"""

from functools import cache
from random import Random
from typing import Any

from msgspec.structs import replace

from analysis.measure import PairRecord
from analysis.ranking import Trial
from analysis.report import render_html, render_text
from analysis.spec import ExperimentSpec
from emulator.params import EngineParams
from tests.analysis.simulated import answers, mean_inflight, traffic
from tests.analysis.trials import check, named

ENGINE = EngineParams(
    base_ms=8.0, ms_per_seq=0.1, ms_per_prefill_token=0.005, jitter=0.03, hiccup_rate=0.0, max_num_seqs=256
)
SECONDS = 150.0
OUTPUTS = {"exact_match": 1.0, "first_divergence": 0.0}


@cache
def experiment() -> dict[str, Any]:
    """The ranking of two identical engines at 10 % sampling."""
    rng = Random(11)
    everything = traffic(SECONDS, 55.0, rng)
    sampled = [request for request in everything if rng.random() < 0.1]
    production = answers("production", everything, ENGINE, "production")
    arms = {arm: answers(arm, sampled, ENGINE, arm) for arm in ("control", "same")}
    spec = ExperimentSpec("tenth", "m", ("same",), calibration_s=15.0, calibration_pairs=40)
    trial = Trial(spec)
    twins = answers("control", sampled, ENGINE, "twin")
    for request in sampled:
        calibrating = trial.phase == "calibration"
        first = rng.random() < 0.5
        given = [
            replace(arms["control"][request.number], order=int(not first)),
            replace(arms["same"][request.number], order=int(first)),
        ]
        if calibrating:
            given.append(replace(twins[request.number], twin=1, order=2))
        trial.add(
            PairRecord(
                "tenth",
                f"r{request.number}",
                trial.phase,
                request.at_ns,
                request.at_ns,
                request.number,
                0,
                tuple(given),
                production[request.number],
                {"control" if calibrating else "same": dict(OUTPUTS)},
                production_sent_ns=request.at_ns - 800_000,
            )
        )
    trial.load(
        {
            "span_s": SECONDS,
            "production": mean_inflight(production, SECONDS),
            "arms": {arm: mean_inflight(done, SECONDS) for arm, done in arms.items()},
            "rate": 0.1,
            "matched": False,
        }
    )
    return trial.ranking()


def test_the_naive_figure_has_the_known_bias_for_the_candidate_and_for_the_control_alike() -> None:
    ratios = experiment()["production"]["beside"]["ratios"]
    for arm in ("control", "same"):
        assert 0.55 < ratios[arm]["itl"] < 0.75, ratios  # "a third faster", of the very same engine
    assert abs(ratios["same"]["itl"] / ratios["control"]["itl"] - 1) < 0.02


def test_i22_it_is_called_not_comparable_and_the_candidate_equivalent_to_the_control() -> None:
    ranking = experiment()
    said = ranking["production"]["beside"]
    assert said["comparable"] is False
    assert said["why"].startswith("not comparable to production")
    assert said["why"].endswith("same against control: equivalent")
    assert named(ranking, "same")["verdicts"]["tpot"]["label"] == "EQUIVALENT"
    assert said["why"] in render_text(ranking) and "not comparable to production" in render_html(ranking)


def test_the_load_that_makes_the_difference_is_shown_and_withholds_nothing() -> None:
    ranking = experiment()
    load = ranking["load"]
    assert load["production"] > 30 and 0.02 < load["control_of_production"] < 0.12
    assert check(ranking, "production_load") is False
    assert named(ranking, "same")["verdicts"]["tpot"]["withheld"] is None
    assert ranking["dispatch"]["behind_production_p99_ms"] >= 0.8
