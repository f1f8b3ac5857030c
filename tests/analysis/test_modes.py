"""A report's words are those of its experiment's mode: what it counts, what production has to do with it, and
what would mend it."""

from dataclasses import replace
from typing import Any

import pytest

from analysis.decision.decide import Wishes, decide
from analysis.decision.evidence import Evidence
from analysis.mending import MEND, mend
from analysis.ranking import Trial
from analysis.report import render_text
from analysis.report_page import render_html
from analysis.spec import ExperimentSpec
from tests.analysis.test_turns import in_turns
from tests.analysis.trials import SPEC, named, records, trial_of

REPLAY = replace(SPEC, mode="replay")
WHOLE = "all of the replay is sent: raise replay.rounds, or replay a longer recording"


def replayed(blocks: int, of: int, effect: float = 0.0) -> dict[str, Any]:
    trial = trial_of(in_turns(blocks, effect), REPLAY)
    trial.replayed({"turns": blocks, "of": of})
    return trial.ranking()


def test_a_replay_that_goes_on_counts_blocks_and_says_how_many_there_are() -> None:
    ranking = replayed(12, 60)
    assert "quick: undecided per token, 11 more blocks needed at least." in ranking["summary"]
    assert ranking["replay"] == {"turns": 12, "of": 60, "over": False}
    text = render_text(ranking)
    assert "10 blocks, 12 of 60 blocks replayed," in text
    assert "production was not asked: what the arms got is a recording; nothing is said of production" in text
    assert "window" not in text and "observed" not in text


def test_one_that_is_over_says_so_and_what_would_give_more() -> None:
    ranking = replayed(12, 12)
    assert f"4 of the 15 blocks needed at least, and {WHOLE}." in ranking["summary"]
    assert "more" not in ranking["summary"]
    assert "12 of 12 blocks replayed, all is sent" in render_text(ranking)
    enough = next(c for c in ranking["checks"] if c["name"] == "enough_units")
    assert (enough["detail"], enough["mend"]) == ("12 blocks, 15 needed", mend("enough_units", "replay"))


def test_one_that_is_over_in_the_calibration_has_no_verdict_and_says_what_would_give_one() -> None:
    trial = trial_of([], REPLAY)
    for replay, says in (({"turns": 1, "of": 2}, "the replay goes on"), ({"turns": 2, "of": 2}, WHOLE)):
        trial.replayed(replay)
        assert f"No verdict before it is over; {says}" in trial.ranking()["summary"]
        found = decide(trial, Evidence(REPLAY, set()), Wishes())
        assert found["answer"] == "UNDECIDED" and says in found["headline"]
    assert found["headline"].endswith(", or begin anew with a smaller calibration_pairs.")


@pytest.mark.parametrize(
    ("phase", "spec"),
    [("forced", replace(SPEC, forced_pairs=300)), ("scored", replace(SPEC, scored_pairs=300))],
)
def test_what_ends_in_a_phase_in_which_nobody_is_judged_says_which_and_what_ends_it(
    phase: str, spec: ExperimentSpec
) -> None:
    trial = trial_of(records(60), spec)
    assert trial.phase == phase
    found = decide(trial, Evidence(SPEC, set()), Wishes())
    for said in (found["ranking"]["summary"], found["headline"]):
        assert f"tokens are {phase}" in said and f"begin anew with a smaller {phase}_pairs" in said
    assert "(0 of 300 pairs)" in found["headline"]


def test_its_last_blocks_count_although_none_comes_after_them() -> None:
    spec = ExperimentSpec("trial", "fleet", ("quick",), calibration_pairs=100, mode="replay")
    taken = [r for r in in_turns(45) if r.block is None or r.answer("quick") is not None]
    trial = trial_of(taken, spec)
    assert named(trial.ranking(), "quick")["verdicts"]["tpot"]["units"] == 14  # of 15
    assert named(trial.ranking(), "quick")["verdicts"]["tpot"]["label"] == "UNDECIDED"
    trial.replayed({"turns": 15, "of": 15})
    said = named(trial.ranking(), "quick")["verdicts"]["tpot"]
    assert (said["units"], said["label"]) == (15, "FASTER")


def test_one_with_enough_blocks_that_do_not_decide_says_what_would_give_more() -> None:
    ranking = replayed(48, 48, effect=0.1)
    assert (
        "same: undecided per token," in ranking["summary"]
        and f"of the way, and {WHOLE}." in ranking["summary"]
    )


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("live", ("at the same moment and in random order", "fixes the window length", "a window of")),
        ("switchback", ("Arms take turns", "sampled from production", "block of two slots")),
        ("replay", ("a piece of a recording is sent", "production is not asked", "not asked: a recording")),
    ],
)
def test_the_page_tells_how_the_arms_came_by_their_requests(mode: str, says: tuple[str, ...]) -> None:
    spec = replace(SPEC, mode=mode)
    taken = records(60) if mode == "live" else in_turns(6)
    page = render_html(trial_of(taken, spec).ranking())
    assert [said for said in says if said not in page] == []
    assert ("<dt>Windows</dt>" in page) is (mode == "live")


def test_a_switchback_waits_and_is_not_held_against_productions_load() -> None:
    ranking = trial_of(in_turns(6), replace(SPEC, mode="switchback")).ranking()
    checks = {c["name"]: c for c in ranking["checks"]}
    assert checks["enough_units"]["mend"].startswith("wait: a block is two slots")
    assert checks["production_load"]["detail"] == "not compared with production's load: arms take turns"
    assert "production is observed only: not comparable to production" in render_text(ranking)


def test_what_a_mode_does_not_have_is_no_remedy_in_it() -> None:
    assert [name for name in MEND if "sample.rate" in mend(name, "replay")] == ["production_load"]
    assert all(mend(name, "live") == MEND[name] for name in MEND)


@pytest.mark.parametrize("body", [{}, {"turns": 1}, {"turns": None, "of": 2}, {"turns": "many", "of": 2}])
def test_a_word_on_a_replay_that_is_none_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Trial(REPLAY).replayed(body)
