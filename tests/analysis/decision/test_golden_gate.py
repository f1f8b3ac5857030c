"""Golden requests are a gate: a candidate that is shown to be worse cannot win, and is flagged."""

from typing import Any

import pytest

from analysis.decision.decide import Wishes, decide
from analysis.decision.evidence import Evidence
from analysis.decision.gates import Bars
from analysis.ranking import Trial
from analysis.report import render_html, render_text
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


def test_how_many_golden_requests_were_answered_right_is_in_the_report() -> None:
    _, ranking = ranked(wrong=15, of=60)
    assert "quick, golden requests: 75% of 60 right, control 100% (worse)" in render_text(ranking)
    assert "<h2>Golden requests</h2>" in render_html(ranking)
