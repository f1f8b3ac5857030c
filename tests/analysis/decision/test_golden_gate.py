"""Golden requests are a gate: a candidate that is shown to be worse cannot win, and is flagged."""

from dataclasses import replace
from typing import Any

import pytest

from analysis.decision.decide import Wishes, decide
from analysis.decision.evidence import Evidence
from analysis.decision.gates import Bars
from analysis.decision.text import render_text as decision_text
from analysis.quality import Quality
from analysis.ranking import Trial
from analysis.report import render_html, render_text
from analysis.spec import ExperimentSpec
from tests.analysis.trials import SPEC, named, records

PAIRS = records(700)


def ranked(wrong: int, of: int = 130, *, others: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """Decision and ranking where "quick" gets so many golden requests wrong, the others none or all."""
    evidence = Evidence(SPEC, set())
    trial = Trial(SPEC, watch=evidence.add)
    for record in PAIRS:
        trial.add(record)
    for number in range(of):
        passed = {**dict.fromkeys(("control", *SPEC.candidates), others), "quick": number >= wrong}
        trial.golden({"id": f"set/{number}", "passed": passed})
    found = decide(trial, evidence, Wishes({}, Bars(outputs=False), ()))
    return found, trial.ranking()


def state(found: dict[str, Any], name: str) -> str | None:
    return next((gate["state"] for gate in found["gates"][name] if gate["name"] == "golden"), None)


def test_a_candidate_that_gets_golden_requests_wrong_cannot_win_however_fast() -> None:
    found, ranking = ranked(wrong=15, of=120)
    assert state(found, "quick") == "failed" and state(found, "same") == "passed"
    assert found["answer"] != "WINNER" or found["winner"]["name"] != "quick"
    quick = named(ranking, "quick")
    assert "golden requests go wrong" in quick["flags"]
    assert "gets golden requests wrong that the control gets right" in ranking["summary"]


def test_one_that_is_shown_to_be_no_worse_passes_and_without_golden_requests_there_is_no_gate() -> None:
    found, ranking = ranked(wrong=2, of=400)
    assert state(found, "quick") == "passed" and found["winner"]["name"] == "quick"
    assert named(ranking, "quick")["flags"] == []
    assert state(ranked(wrong=0, of=0)[0], "quick") is None


@pytest.mark.parametrize(("wrong", "of"), [(0, 40), (5, 40)])
def test_one_that_is_not_shown_to_be_worse_and_not_shown_to_be_no_worse_waits_for_more(
    wrong: int, of: int
) -> None:
    found, ranking = ranked(wrong=wrong, of=of)
    assert state(found, "quick") == "open" and found["answer"] == "UNDECIDED"
    assert found["headline"] == "Undecided: quick leads, and a gate is open: golden."
    assert named(ranking, "quick")["flags"] == []


def test_golden_requests_that_nobody_gets_right_show_nothing() -> None:
    found, ranking = ranked(wrong=130, others=False)
    assert state(found, "quick") == "open" and found["answer"] != "WINNER"
    told = "quick, golden requests: 0% of 130 right, control 0% (nobody got one right)"
    assert told in render_text(ranking) and "nobody got one right" in render_html(ranking)


def decided(
    spec: ExperimentSpec, marks: list[dict[str, bool | None]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    evidence = Evidence(spec, set())
    trial = Trial(spec, watch=evidence.add)
    for record in PAIRS:
        trial.add(record)
    for number, passed in enumerate(marks):
        trial.golden({"id": f"set/{number}", "passed": passed})
    return decide(trial, evidence, Wishes({}, Bars(outputs=False), ())), trial.ranking()


UNMARKED: dict[str, bool | None] = dict.fromkeys(("control", *SPEC.candidates))


def test_where_golden_requests_are_asked_nothing_wins_before_one_is_marked() -> None:
    found, ranking = decided(replace(SPEC, golden=True), [])
    assert state(found, "quick") == "open" and found["answer"] == "UNDECIDED"
    assert "open quick, golden: no golden request is marked yet" in decision_text(found)
    assert "quick, golden requests: none is marked yet" in render_text(ranking)
    assert "none is marked yet" in render_html(ranking)


@pytest.mark.parametrize("is_known", [True, False])
def test_where_no_check_can_tell_the_gate_is_open_and_how_many_is_told(is_known: bool) -> None:
    found, ranking = decided(replace(SPEC, golden=is_known), [UNMARKED] * 30)
    assert state(found, "quick") == "open" and found["answer"] == "UNDECIDED"
    assert "no golden request is marked yet; of 30 there is no word" in decision_text(found)
    assert "none is marked yet; of 30 there is no word" in render_text(ranking)


def test_those_without_a_word_are_told_beside_those_that_were_marked_and_a_later_mark_counts() -> None:
    right: dict[str, bool | None] = dict.fromkeys(UNMARKED, True)
    _, ranking = decided(SPEC, [right, UNMARKED, {**right, "quick": None}])
    assert "quick, golden requests: 100% of 1 right, control 100% (undecided; of 2 more there is no" in (
        render_text(ranking)
    )
    quality = Quality("quick")
    for passed in (UNMARKED, right):
        quality.add("set/1", passed)
    shown = quality.show(0.05)
    assert (shown["requests"], shown["unmarked"]) == (1, 0)


def test_how_many_golden_requests_were_answered_right_is_in_the_report() -> None:
    _, ranking = ranked(wrong=15, of=60)
    assert "quick, golden requests: 75% of 60 right, control 100% (worse)" in render_text(ranking)
    assert "<h2>Golden requests</h2>" in render_html(ranking)
