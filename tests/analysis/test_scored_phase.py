"""The phase in which all arms score the control's tokens: what is counted, what it says, how it ends."""

import json
from dataclasses import replace
from math import log
from random import Random
from typing import Any

import pytest

from analysis.measure import PairRecord, measure
from analysis.packed import packed, unpacked
from analysis.ranking import Trial
from analysis.spec import ExperimentSpec
from tests.analysis.fleet import MS, pair_frame

SPEC = ExperimentSpec("t", "m", ("c1",), calibration_s=0, calibration_pairs=2, scored_pairs=300)
TOKENS = [5, 6, 7, 8]
IMPOSSIBLE = json.dumps(
    {"choices": [{"prompt_logprobs": [None, *({str(token): {"logprob": 1e3}} for token in TOKENS)]}]}
).encode()


def scored(arm: str, p: float, twin: int = 0, **changes: Any) -> dict[str, Any]:
    """An answer that gives every token the probability `p`, and to one other what is left but a tenth."""
    row = {"logprob": log(p)}, {"logprob": log(0.9 - p)}
    rows = [None, *({str(token): row[0], "99": row[1]} for token in TOKENS)]
    body = json.dumps({"choices": [{"text": "x", "prompt_logprobs": rows}]}).encode()
    return {
        "arm": arm, "twin": twin, "order": 0, "sent_ns": 0, "head_ns": 1, "status": 200,
        "content_type": "application/json", "reads": [[2, body[:50]], [3, body[50:]]], "end_ns": 3,
        "ending": "complete", **changes,
    }  # fmt: skip


def pair(number: int, again: float = 0.5, theirs: float = 0.4, **changes: Any) -> PairRecord:
    """The control gives its tokens 0.5 at first, and then `again`."""
    answers = [scored("control", 0.5), scored("control", again, 1), scored("c1", theirs, **changes)]
    at_ns = number * 100 * MS
    return measure(pair_frame(answers, phase="scored", at_ns=at_ns, path="/v1/completions", scored=TOKENS))


def k3(r: float) -> float:
    return r - 1.0 - log(r)


def trial(spec: ExperimentSpec = SPEC) -> Trial:
    made = Trial(spec)
    made.calibrate()
    return made


def test_each_pair_is_compared_with_the_control_and_the_control_with_itself() -> None:
    record = pair(1, again=0.45)
    assert record.outputs["c1"]["kl_k3"] == pytest.approx(k3(0.4 / 0.5))
    assert record.outputs["control"]["kl_k3"] == pytest.approx(k3(0.45 / 0.5))
    assert record.outputs["c1"]["logprob_gap"] == pytest.approx(log(0.5 / 0.4))
    p, q = (0.5, 0.4, 0.1), (0.4, 0.5, 0.1)
    both = sum((a - b) * log(a / b) for a, b in zip(p, q, strict=True)) / 2.0
    assert record.outputs["c1"]["kl_top"] == pytest.approx(both)
    assert record.outputs["c1"]["flips"] == 1.0  # for the candidate the other one is the likeliest
    assert set(record.outputs["c1"]) == {"logprob_gap", "kl_k3", "kl_top", "flips", "flips_when_sure"}


def test_no_time_and_no_text_of_a_scoring_is_kept() -> None:
    record = unpacked(packed(pair(1)))
    for answer in record.answers:
        times = (answer.ttft_ms, answer.ttft_user_ms, answer.itl_ms, answer.tpot_ms, answer.e2e_ms)
        assert times == (None,) * 5 and answer.fault is None and answer.strip == b""
    assert record.partings == {} and record.production is None


def test_the_excess_is_what_is_beyond_the_control_against_itself_pair_by_pair() -> None:
    made = trial()
    for number in range(300):
        # What sets a pair apart from others moves the floor and the candidate alike.
        again = 0.5 - 0.01 * (number % 5)
        made.add(pair(number, again=again, theirs=0.15))
    assert str(made.phase) == "live"
    shown = made.ranking()["scored"]
    assert shown["pairs"] == 300 and shown["windows"] == 30 and shown["why"] is None
    found = shown["outputs"]["c1"]["kl_k3"]
    floor = sum(k3((0.5 - 0.01 * n) / 0.5) for n in range(5)) / 5
    assert found["value"] == pytest.approx(k3(0.3)) and found["floor"] == pytest.approx(floor)
    excess = found["excess"]
    assert excess["value"] == pytest.approx(k3(0.3) - floor)
    assert 0.0 < excess["lower"] < excess["value"] < excess["upper"]
    gap = shown["outputs"]["c1"]["logprob_gap"]
    assert gap["excess"]["value"] == pytest.approx(gap["value"] / gap["floor"])


def test_below_fifteen_windows_it_says_no_interval_but_why() -> None:
    made = trial(replace(SPEC, scored_pairs=140))
    for number in range(140):
        made.add(pair(number, again=0.5 - 0.01 * (number % 5)))
    found = made.ranking()["scored"]["outputs"]["c1"]["kl_k3"]
    assert found["value"] == pytest.approx(k3(0.8)) and found["why"] == "14 windows, 15 needed"
    assert found["lower"] is None and found["upper"] is None and found["excess"] is None


def test_what_is_so_rare_that_nobody_saw_it_has_its_room_in_the_interval() -> None:
    """One pair in 200 of 5 nats and more, in runs of ten, and none of them among 300."""
    made = trial()
    for number in range(300):
        made.add(pair(number))
    outputs = made.ranking()["scored"]["outputs"]["c1"]
    assert all(outputs[name]["excess"]["upper"] > 0.05 for name in ("kl_k3", "kl_top", "flips"))
    assert outputs["logprob_gap"]["excess"]["upper"] > 1.5


def test_a_pair_counts_as_a_nat_at_most_in_the_value_the_floor_and_the_excess() -> None:
    made = trial()
    for number in range(300):
        made.add(pair(number, again=1e-6, theirs=1e-6 if number % 2 else 0.5))
    found = made.ranking()["scored"]["outputs"]["c1"]["kl_k3"]
    assert k3(1e-6 / 0.5) > 10.0
    assert (found["value"], found["floor"]) == (pytest.approx(0.5), pytest.approx(1.0))
    assert found["excess"]["value"] == pytest.approx(-0.5)
    assert found["excess"]["lower"] >= -1.0 and found["upper"] <= 1.0


def test_a_candidate_like_the_control_has_no_excess() -> None:
    made, rng = trial(), Random(1)
    for number in range(300):
        made.add(pair(number, again=rng.uniform(0.4, 0.5), theirs=rng.uniform(0.4, 0.5)))
    excess = made.ranking()["scored"]["outputs"]["c1"]["kl_k3"]["excess"]
    assert excess["lower"] < 0.0 < excess["upper"]


def test_the_phase_comes_after_the_forced_one_and_before_the_trial_and_times_nothing() -> None:
    made = trial(replace(SPEC, forced_pairs=5, scored_pairs=2))
    assert str(made.phase) == "forced"
    made.add(pair(0))  # too soon: it is not of this phase
    made.undone("forced", "c1 does not decode tokens it is given (status 404)")
    assert str(made.phase) == "scored"
    made.add(pair(1))
    assert str(made.phase) == "scored"
    made.add(pair(2))
    assert str(made.phase) == "live"
    ranking = made.ranking()
    assert ranking["scored"]["pairs"] == 2 and ranking["unused_pairs"] == 1
    assert ranking["control"]["n"] == 0 and ranking["candidates"][0]["verdicts"]["e2e"]["units"] == 0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"status": 400}, "c1 does not score tokens it is given (status 400)"),
        ({"ending": "timeout"}, "c1 does not score tokens it is given (timeout)"),
        (
            {"reads": [[2, b'{"choices":[{"text":"x"}]}']]},
            "c1 does not score tokens it is given (not scored)",
        ),
        ({"reads": [[2, IMPOSSIBLE]]}, "c1 does not score tokens it is given (not scored)"),
    ],
)
def test_an_engine_that_comes_not_to_score_ends_the_phase_and_is_named(
    changes: dict[str, Any], why: str
) -> None:
    made = trial()
    for number in range(9):
        record = pair(number, **changes)
        assert record.answers[2].fault is not None and "c1" not in record.outputs
        made.add(record)
    made.add(pair(9))  # one in between begins the count anew
    for number in range(10, 20):
        assert str(made.phase) == "scored"
        made.add(pair(number, **changes))
    assert str(made.phase) == "live" and made.ranking()["scored"]["why"] == why
    assert made.ranking()["scored"]["pairs"] == 1


def test_without_such_a_phase_the_trial_is_live_after_its_calibration() -> None:
    made = trial(replace(SPEC, scored_pairs=0))
    assert made.phase == "live" and made.ranking()["scored"] is None
