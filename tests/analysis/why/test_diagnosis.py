"""The diagnosis of an arm over all its time: one cause only where it holds in most of it, else the reason."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from analysis.why.diagnosis import Diagnoses
from analysis.why.engines import Reading
from analysis.why.signals import Telemetry
from tests.analysis.cost.recordings import S, pairs, recorded

JUDGED = recorded(list(pairs([4.0], 304.0)))
RUNS = {arm: JUDGED.runs(arm) for arm in ("same", "slow")}


def said(second: float) -> dict[str, float]:
    """An engine that is short of room until two thirds of the time have passed, then idle."""
    if second < 200.0:
        return {"running": 10.0, "queued": 4.0, "kv_usage": 1.0, "preemptions": second}
    return {"running": 0.0, "queued": 0.0, "kv_usage": 0.0, "preemptions": 200.0}


def seen(tells: Callable[[float], dict[str, float]], seconds: Iterable[int] = range(304)) -> dict[str, Any]:
    found = Telemetry()
    for at_s in seconds:
        found.engine(Reading("same", at_s * S, 0.0, 0, "sglang", tells(at_s)))
    return Diagnoses().why(RUNS, found)


def test_a_cause_that_holds_in_most_spans_is_the_arms_and_the_others_keep_their_shares() -> None:
    same = seen(said)["same"]
    assert same["cause"] == "kv_capacity" and same["withheld"] is None
    assert same["spans"] == 10 and sum(same["shares"].values()) == pytest.approx(1.0)
    assert 0.6 <= same["shares"]["kv_capacity"] <= 0.7 and same["shares"]["idle"] >= 0.3
    assert [one["cause"] for one in same["course"]][:6] == ["kv_capacity"] * 6
    assert same["try"][0]["flag"] == "--kv-cache-dtype fp8_e5m2"


def test_where_no_cause_holds_in_most_of_the_time_none_is_named_and_nothing_suggested() -> None:
    def mixed(second: float) -> dict[str, float]:
        return said(0.0 if second < 120 else 300.0) if second < 240 else {"running": 5.0, "queued": 0.0}

    same = seen(mixed)["same"]
    assert (same["cause"], same["try"]) == (None, []) and "no one cause" in same["withheld"]
    assert len(same["shares"]) == 3


def test_an_arm_of_which_nothing_was_recorded_is_said_to_be_so_and_how_to_mend_it() -> None:
    slow = seen(said)["slow"]
    assert (slow["cause"], slow["strength"], slow["try"]) == (None, None, [])
    assert "were not recorded" in slow["withheld"] and "--enable-metrics" in slow["withheld"]


def test_why_an_engine_says_nothing_is_told() -> None:
    found = Telemetry()
    for at_s in range(304):
        found.engine(Reading("same", at_s * S, 0.0, 0, None, {}, "its metrics answered 404"))
    same = Diagnoses().why(RUNS, found)["same"]
    assert same["withheld"].startswith("its metrics answered 404")


def test_of_a_long_experiment_spans_are_longer_and_the_last_are_told_one_by_one() -> None:
    found = Telemetry()
    for at_s in range(304):
        found.engine(Reading("same", at_s * S, 0.0, 0, "sglang", said(at_s)))
    every = Diagnoses().why(RUNS, found)["same"]
    few = Diagnoses().why(RUNS, found, most=6, latest=2)["same"]
    assert (every["spans"], few["spans"], len(few["course"])) == (10, 5, 2)
    assert few["course"][-1]["cause"] == "idle" and few["cause"] == every["cause"]
    assert few["shares"]["kv_capacity"] == pytest.approx(every["shares"]["kv_capacity"], abs=0.1)


def test_a_diagnosis_that_goes_on_is_the_one_that_would_be_made_anew() -> None:
    found, kept = Telemetry(), Diagnoses()
    for at_s in range(304):
        found.engine(Reading("same", at_s * S, 0.0, 0, "sglang", said(at_s)))
        if at_s % 50 == 0:
            assert kept.why(RUNS, found) == Diagnoses().why(RUNS, found)
    assert kept.why(RUNS, found) == Diagnoses().why(RUNS, found)
