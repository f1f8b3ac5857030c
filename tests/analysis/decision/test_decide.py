"""From pairs to a decision: gates before speed, conditions by intervals, the same whatever the order."""

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace as changed

from analysis.decision.conditions import ConditionError, parse
from analysis.decision.decide import Wishes, decide
from analysis.decision.evidence import Evidence
from analysis.decision.gates import Bars
from analysis.decision.markdown import render_markdown
from analysis.decision.measures import parse_weight
from analysis.decision.page import render_html
from analysis.decision.text import render_text
from analysis.measure import PairRecord
from analysis.ranking import Trial
from analysis.report import to_json
from analysis.spec import ExperimentSpec
from tests.analysis.trials import SPEC, altered, records

Change = Callable[[PairRecord], PairRecord]
PAIRS = records(1200)


def decided(
    taken: list[PairRecord],
    *conditions: str,
    spec: ExperimentSpec = SPEC,
    bars: Bars | None = None,
    weights: tuple[str, ...] = (),
) -> dict[str, Any]:
    read = tuple(parse(text) for text in conditions)
    evidence = Evidence(spec, {one.tail for one in read if one.tail is not None})
    trial = Trial(spec, watch=evidence.add)
    for record in taken:
        trial.add(record)
    wishes = Wishes(dict(parse_weight(text) for text in weights), bars or Bars(), read)
    return decide(trial, evidence, wishes)


def states(found: dict[str, Any], name: str) -> dict[str, str]:
    return {gate["name"]: gate["state"] for gate in found["gates"][name]}


def some(share: float, arm: str, **values: Any) -> Change:
    rng = Random(5)
    return lambda record: altered(record, arm, **values) if rng.random() < share else record


FAILED: dict[str, Any] = {"fault": "status 500", "ttft_ms": None, "itl_ms": None, "tpot_ms": None}


def test_the_quick_candidate_wins_and_is_estimated_on_windows_that_did_not_choose_it() -> None:
    found = decided(PAIRS, bars=Bars(outputs=False))  # answers that are alike take longer to be seen
    winner = found["winner"]
    assert (found["answer"], winner["name"], winner["enough"]) == ("WINNER", "quick", True)
    assert winner["chosen_by_windows"] + winner["fresh_windows"] == found["ranking"]["windows"]
    assert winner["fresh"]["tpot"]["lower"] < 0.75 < winner["fresh"]["tpot"]["upper"]
    assert found["headline"].startswith("quick wins: TTFT -2")
    assert found["front"]["on"] == ["quick"] and set(states(found, "quick").values()) == {"passed"}


def test_a_fast_candidate_that_fails_requests_cannot_win() -> None:
    found = decided(records(1200, some(0.08, "quick", **FAILED)))
    assert states(found, "quick")["errors"] == "failed" and "quick" not in found["passes"]
    assert found["answer"] == "NO DIFFERENCE"
    assert "at most +1.0% allowed" in next(
        gate["detail"] for gate in found["gates"]["quick"] if gate["name"] == "errors"
    )


def test_a_candidate_that_answers_otherwise_wins_only_where_that_is_accepted() -> None:
    def other(record: PairRecord) -> PairRecord:
        outputs = {arm: dict(scores) for arm, scores in record.outputs.items()}
        outputs["quick"]["first_divergence"] = 0.4
        return changed(record, outputs=outputs)

    taken = records(1200, other)
    assert states(decided(taken), "quick")["outputs"] == "failed"
    found = decided(taken, bars=Bars(outputs=False))
    assert (found["answer"], found["winner"]["name"]) == ("WINNER", "quick")


def test_an_slo_that_a_candidate_misses_more_often_than_the_control_is_a_gate() -> None:
    spec = replace(SPEC, slo_ttft_ms=250.0)
    found = decided(records(1200, some(0.1, "quick", ttft_ms=900.0)), spec=spec)
    assert states(found, "quick")["slo"] == "failed"
    assert states(decided(PAIRS, spec=spec), "quick")["slo"] == "passed"
    assert "slo" not in states(decided(PAIRS), "quick")  # without bounds there is no such gate


def test_a_comparison_that_is_not_fair_has_no_winner() -> None:
    late: Change = lambda record: altered(record, "quick", sent_ns=record.at_ns + 200_000_000)  # noqa: E731
    found = decided(records(1200, late))
    assert states(found, "quick")["comparison"] == "failed" and found["answer"] == "NONE PASSES"


def test_before_there_is_enough_nothing_is_decided() -> None:
    assert decided([])["answer"] == "UNDECIDED"
    found = decided(PAIRS[:400], "tpot>+5%", "ttft_p99>+5%", "errors>1%")
    assert found["answer"] == "UNDECIDED"
    assert {one["answer"] for one in found["conditions"]} == {"unknown"}


ANSWERS = {
    "slow:tpot>+5%": "met",
    "slow:tpot>+60%": "not met",
    "slow:tpot>+30%": "unknown",  # it is 30 % slower: the interval holds the bound
    "quick:tpot>-40%": "met",
    "quick:tpot<-10%": "met",
    "slow:ttft_p95>+10%": "met",
    "same:ttft_p95>+10%": "not met",
    "slow:ttft_p50>240ms": "met",
    "same:ttft>240ms": "not met",
    "same:errors>1%": "not met",
    "same:errors>+1%": "not met",
    "same:slo_met<99%": "unknown",
    "same:exact_match<0.9": "not met",
    "same:exact_match>0.9": "met",
    "same:tool_calls<0.9": "unknown",
}


def test_a_condition_is_met_by_the_whole_interval_or_not_or_unknown() -> None:
    found = decided(PAIRS, *ANSWERS, "slow:ttft_p99>+5%")
    assert {one["condition"]: one["answer"] for one in found["conditions"][:-1]} == ANSWERS
    p99 = found["conditions"][-1]
    assert p99["answer"] == "met" and "not under peeking" in p99["note"]


def test_a_condition_without_a_name_is_judged_for_every_candidate() -> None:
    found = decided(PAIRS, "tpot>+5%")
    assert {one["candidate"]: one["answer"] for one in found["conditions"]} == {
        "quick": "not met",
        "same": "not met",
        "slow": "met",
    }


def test_a_condition_on_errors_counts_failures_and_one_on_slo_what_is_met() -> None:
    spec = replace(SPEC, slo_ttft_ms=250.0)
    taken = records(1200, some(0.08, "same", **FAILED))
    found = decided(taken, "same:errors>3%", "same:errors>+3%", "same:slo_met<98%", spec=spec)
    assert [one["answer"] for one in found["conditions"]] == ["met"] * 3
    assert "points against the control" in found["conditions"][1]["found"]


def test_of_a_percentile_nothing_is_said_before_it_has_a_thousand_pairs() -> None:
    (one,) = decided(PAIRS[:1100], "slow:ttft_p99>+5%")["conditions"]
    assert one["answer"] == "unknown" and "1000" in one["found"]


def test_of_a_percentile_that_one_burst_makes_nothing_is_said_but_how_many_pairs_it_would_take() -> None:
    """A condition of a change and one of milliseconds alike."""
    rng, slow_ms = Random(7), 4_000.0
    taken = [
        altered(record, "slow", ttft_ms=slow_ms * rng.uniform(1.0, 1.1), e2e_ms=2.0 * slow_ms)
        if 600 <= n < 660
        else record
        for n, record in enumerate(records(1_200))
    ]
    found = decided(taken, "slow:ttft_p95>+5%", "slow:ttft_p95>1000ms")["conditions"]
    assert [one["answer"] for one in found] == ["unknown", "unknown"]
    assert all("needed, for answers as slow come in bursts" in one["found"] for one in found)


def test_a_candidate_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConditionError, match="no candidate 'fast'; there are quick, same, slow"):
        decided(PAIRS[:300], "fast:tpot>+5%")


def test_weights_choose_what_counts() -> None:
    found = decided(PAIRS, weights=("e2e=2",))
    assert found["weights"] == {"e2e": 2.0} and list(found["winner"]["fresh"]) == ["e2e"]
    with pytest.raises(ValueError, match="tpot=2"):
        parse_weight("speed=2")
    with pytest.raises(ValueError, match="above 0"):
        parse_weight("tpot=-1")


def test_the_order_in_which_pairs_came_leaves_no_trace() -> None:
    conditions = ("ttft_p99>+5%", "errors>1%")
    shuffled = PAIRS[300:]
    for start in range(0, len(shuffled), 8):  # answers end out of order, by less than a window settles
        shuffled[start : start + 8] = reversed(shuffled[start : start + 8])
    one, other = (decided(taken, *conditions) for taken in (PAIRS, PAIRS[:300] + shuffled))
    for found in (one, other):
        found.pop("ranking")
    assert to_json(one) == to_json(other)


def test_every_form_says_the_same_and_none_lets_a_name_become_markup() -> None:
    evil = "<b>|q*"
    spec = replace(SPEC, name="<i>trial", candidates=(evil, "same", "slow"))

    def renamed(record: PairRecord) -> PairRecord:
        answers = tuple(changed(a, arm=evil) if a.arm == "quick" else a for a in record.answers)
        outputs = {evil if arm == "quick" else arm: scores for arm, scores in record.outputs.items()}
        return changed(record, answers=answers, outputs=outputs)

    found = decided([renamed(record) for record in PAIRS], "tpot>+5%", spec=spec, bars=Bars(outputs=False))
    assert json.loads(to_json(found))["answer"] == "WINNER"
    text, markdown, page = render_text(found), render_markdown(found), render_html(found)
    assert f"{evil} wins" in text and any(line.split()[1:3] == ["slow", "MET"] for line in text.splitlines())
    assert "<b>" not in markdown and "**&lt;b>\\|q\\*** (wins)" in markdown
    rows = [line for line in markdown.splitlines() if "vs control" in line or "(wins)" in line]
    assert len({line.count("|") - line.count("\\|") for line in rows}) == 1 and len(rows) == 2
    assert "<script" not in page and "<b>|q" not in page and "&lt;b&gt;|q*" in page
    assert "http://" not in page and "https://" not in page and page.count("<circle class='f") == 3


def test_how_alike_answers_are_in_meaning_is_a_condition_where_that_is_measured_and_else_an_error() -> None:
    spec = replace(SPEC, similarity="letters")
    evidence = Evidence(spec, set())
    trial = Trial(spec, watch=evidence.add)
    at: dict[str, Any] = {"why": None, "dropped": {}, "block": None}
    for record in PAIRS:
        trial.add(record)
        arms = ["control"] if record.phase == "calibration" else [*spec.candidates]
        trial.similarity({"id": record.id, "at_ns": record.at_ns, "scores": dict.fromkeys(arms, 0.5), **at})
    asked = parse("quick: embedding_similarity<0.8")
    found = decide(trial, evidence, Wishes({}, Bars(), (asked,)))
    assert [one["answer"] for one in found["conditions"]] == ["met"], found["conditions"]
    with pytest.raises(ConditionError, match=r"set experiments\[\]\.similarity"):
        decided(PAIRS, "embedding_similarity<0.8")
