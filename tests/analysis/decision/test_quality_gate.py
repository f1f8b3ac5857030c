"""Answers are a gate: what nobody could see is not called the same, and what is surely worse cannot win."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from analysis.amiss import amiss, not_shown
from analysis.decision.decide import Wishes, decide
from analysis.decision.evidence import Evidence
from analysis.decision.gates import Bars, gates
from analysis.decision.markdown import render_markdown
from analysis.decision.page import render_html
from analysis.decision.text import render_text
from analysis.quality import Quality
from analysis.ranking import Trial
from analysis.report import to_json
from analysis.spec import ExperimentSpec
from analysis.verdict import Interval, Spread, outputs_label, outputs_unseen
from tests.analysis.fleet import pair_record
from tests.analysis.trials import named

SPEC = ExperimentSpec("trial", "fleet", ("quick",), calibration_s=49.9, calibration_pairs=100)
CALIBRATION, LIVE = 500, 500


def judged(
    floor: float, divergence: float, live: Mapping[str, float], *, accepted: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Decision and candidate of a quick one: answers part from the control's at `divergence`, the control's
    own at `floor`; `live` are the other measures of its answers, which the control has as good twice."""
    rng, evidence = Random(3), Evidence(SPEC, set())
    trial = Trial(SPEC, watch=evidence.add)
    same = {name: 1.0 if name == "language" else 0.0 for name in live}
    for n in range(CALIBRATION + LIVE):
        is_calibration = n < CALIBRATION
        record = pair_record(n, {"quick": 0.75}, phase="calibration" if is_calibration else "live", rng=rng)
        if is_calibration:
            record.outputs["control"] = {"first_divergence": floor, **same}
        else:
            record.outputs["quick"] = {"first_divergence": divergence, **live}
        trial.add(record)
    found = decide(trial, evidence, Wishes({}, Bars(outputs=not accepted), ()))
    return found, named(found["ranking"], "quick")


def gate(found: dict[str, Any], name: str) -> dict[str, Any]:
    (own,) = [one for one in found["gates"]["quick"] if one["name"] == name]
    return dict(own)


WORST = {
    "refusal": 1.0,
    "loop": 1.0,
    "garbage": 1.0,
    "language": 0.0,
    "json_valid": -1.0,
    "schema_valid": -1.0,
    "tools_valid": -1.0,
}


def test_where_the_control_parts_from_itself_at_once_nothing_is_the_same_and_it_is_said_why() -> None:
    found, quick = judged(0.99, 0.99, {"refusal": 0.0})
    assert quick["outputs"]["label"] == "UNDECIDED" and found["answer"] == "UNDECIDED"
    assert gate(found, "outputs")["state"] == "open"
    assert "could not be seen to part more" in gate(found, "outputs")["detail"]
    assert "could not be seen to part more" in render_text(found)
    accepted, _ = judged(0.99, 0.99, {"refusal": 0.0}, accepted=True)
    assert (accepted["answer"], accepted["winner"]["name"]) == ("WINNER", "quick")


def test_whatever_the_interval_says_a_floor_that_leaves_no_room_gives_no_label() -> None:
    for mean in (0.0, 0.5, 0.97, 1.0):
        assert outputs_label(Interval(mean, 0.001, 400, 0.1), Spread(0.979, 0.002)) == "UNDECIDED"
    assert outputs_label(Interval(0.95, 0.001, 400, 0.1), Spread(0.95, 0.002)) == "SAME"
    assert outputs_unseen(Spread(0.95, 0.002)) is None and outputs_unseen(None) is None


@pytest.mark.parametrize("measure", WORST)
def test_a_measure_that_is_surely_worse_fails_the_gate_and_is_named_even_where_other_answers_are_accepted(
    measure: str,
) -> None:
    found, quick = judged(0.99, 0.99, {measure: WORST[measure]}, accepted=True)
    assert gate(found, "quality")["state"] == "failed" and found["answer"] == "NONE PASSES"
    assert measure in gate(found, "quality")["detail"]
    assert quick["flags"] == ["answers are amiss more often"]
    assert "but its answers are amiss more often" in found["ranking"]["summary"]


def test_what_is_better_passes_and_so_does_what_only_differs() -> None:
    better = {name: -worst for name, worst in WORST.items() if name != "language"}
    found, quick = judged(
        0.1, 0.1, {**better, "language": 1.0, "exact_match": 0.0, "final_number": 0.0}, accepted=True
    )
    assert gate(found, "quality")["state"] == "passed" and quick["flags"] == []
    assert (found["answer"], found["winner"]["name"]) == ("WINNER", "quick")


def test_an_acceptance_passes_but_never_silently_what_was_not_shown_is_said_in_every_form() -> None:
    found, _ = judged(0.99, 0.99, {"refusal": 0.0}, accepted=True)
    quality = gate(found, "quality")
    assert (quality["state"], quality["accepted"], found["answer"]) == ("passed", True, "WINNER")
    assert "not shown" in quality["detail"] and "loop ?" in quality["detail"]
    assert "Quality not shown" in found["headline"] and b"Quality not shown" in to_json(found)
    assert "accepted quick, quality: not shown" in render_text(found)
    assert "- quick, quality **accepted**: not shown" in render_markdown(found)
    page = render_html(found)
    assert "Quality not shown" in page and ">accepted</span>" in page
    refused, _ = judged(0.99, 0.99, {"refusal": 0.0})
    assert gate(refused, "quality")["state"] == "open"


def test_where_every_measure_is_surely_no_worse_or_golden_requests_say_so_quality_is_shown() -> None:
    _, quick = judged(0.99, 0.99, {"refusal": 0.0})
    fine = {name: shown(-0.01, 0.01) for name in ("refusal", "loop", "garbage", "language")}
    for outputs, is_accepted in ((fine, False), ({**fine, "loop": shown(-0.01, 0.02)}, True)):
        own = {one.name: one for one in gates({**quick, "outputs": outputs}, ["tpot"], Bars(outputs=False))}
        assert own["quality"].accepted is is_accepted and own["quality"].state == "passed"
    marks = Quality("quick")
    for number in range(130):
        marks.add(f"set/{number}", {"control": True, "quick": True})
    said = {**quick, "outputs": {}, "quality": marks.show(0.05)}
    own = {one.name: one for one in gates(said, ["tpot"], Bars(outputs=False))}
    assert own["golden"].state == "passed" and not own["quality"].accepted
    before = {one.name: one for one in gates({**said, "quality": {}}, ["tpot"], Bars(outputs=False))}
    assert before["quality"].accepted


def test_one_point_worse_may_not_be_and_what_nobody_asked_for_need_not_be_shown() -> None:
    fine = dict.fromkeys(("refusal", "loop", "garbage"), shown(-0.01, 0.01))
    fine["language"] = shown(-0.01, 0.01)
    assert not_shown(fine) == {}
    assert not_shown({**fine, "refusal": shown(-0.01, 0.011)}) == {"refusal": 0.011}
    assert not_shown({**fine, "language": shown(-0.02, 0.01)}) == {"language": 0.02}
    assert not_shown({**fine, "loop": shown(0.0, 0.0, units=14)}) == {"loop": None}
    assert not_shown({**fine, "json_valid": shown(-0.1, 0.0)}) == {"json_valid": 0.1}
    assert not_shown({**fine, "json_valid": shown(0.0, 0.0) | {"value": None, "units": 0}}) == {}
    assert set(not_shown({})) == {"refusal", "loop", "garbage", "language"}


def shown(lower: float, upper: float, units: int = 15, unit: str = "difference") -> dict[str, Any]:
    ends = {"lower": lower, "upper": upper}
    return {"unit": unit, "value": (lower + upper) / 2, **ends, "excess": ends, "units": units}


def test_only_a_whole_interval_beyond_one_point_on_the_bad_side_of_enough_windows_is_amiss() -> None:
    assert amiss({"refusal": shown(0.011, 0.2)}) == {"refusal": (0.011, 0.2)}
    assert amiss({"json_valid": shown(-0.2, -0.011)}) == {"json_valid": (0.011, 0.2)}
    assert amiss({"refusal": shown(0.009, 0.2)}) == {} == amiss({"refusal": shown(-0.2, -0.02)})
    assert amiss({"refusal": shown(0.5, 0.9, units=14)}) == {} == amiss({"exact_match": shown(0.5, 0.9)})


def test_of_what_the_calibration_never_saw_the_floor_is_none_where_two_equal_engines_have_none() -> None:
    never: dict[str, Any] = {"excess": None}
    assert amiss({"json_valid": shown(-0.9, -0.5) | never}) == {"json_valid": (0.5, 0.9)}
    assert amiss({"language": shown(0.1, 0.2, unit="share") | never}) == {}
