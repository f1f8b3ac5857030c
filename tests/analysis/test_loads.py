"""The load of the arms beside production's: means over time, matched within 5 %, the same from a log."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.course import Course, MalformedError
from analysis.loads import Loads
from analysis.mending import MEND, NOT_ASKED, RATE_IS_SET
from analysis.ranking import Trial
from analysis.report import report, to_json
from analysis.store import LogReader
from tests.analysis.fleet import answer_frame, pair_frame
from tests.analysis.trials import SPEC, check

means = st.floats(0, 1000)


def said(production: float | None, control: float, span_s: float = 30.0) -> dict[str, Any]:
    arms = {"control": control, "quick": control / 2}
    return {"span_s": span_s, "production": production, "arms": arms, "rate": 0.25, "matched": True}


@given(st.lists(st.tuples(means, means, st.floats(0.1, 100)), min_size=1, max_size=20))
def test_a_mean_over_time_weighs_each_span_by_its_length(spans: list[tuple[float, float, float]]) -> None:
    loads = Loads()
    for production, control, seconds in spans:
        loads.add(said(production, control, seconds))
    whole = sum(seconds for _, _, seconds in spans)
    assert loads.show()["production"] == pytest.approx(sum(p * s for p, _, s in spans) / whole)
    assert loads.show()["arms"]["control"] == pytest.approx(sum(c * s for _, c, s in spans) / whole)


@pytest.mark.parametrize(
    ("production", "control", "ok"),
    [
        (8.0, 8.0, True),
        (8.0, 7.7, True),
        (8.0, 7.5, False),
        (8.0, 8.5, False),
        (8.0, 0.8, False),
        (0.0, 0.0, None),
    ],
)
def test_within_five_per_cent_is_matched(production: float, control: float, ok: bool | None) -> None:
    loads = Loads()
    loads.add(said(production, control))
    assert loads.check().ok is ok and not loads.check().withholds


def test_a_rate_that_is_set_already_is_no_remedy() -> None:
    remedies = {}
    for is_matched in (True, False):
        loads = Loads()
        loads.add({**said(8.0, 4.0), "matched": is_matched})
        remedies[is_matched] = loads.check().show("live")["mend"]
        assert loads.check("switchback").show("switchback")["mend"] == NOT_ASKED
    assert remedies == {True: RATE_IS_SET, False: MEND["production_load"]}


def test_production_unseen_is_unknown_and_never_zero() -> None:
    loads = Loads()
    loads.add(said(None, 3.0))
    assert loads.show()["production"] is None and loads.share_of_production is None
    assert loads.show()["arms"] == {"control": 3.0, "quick": 1.5}
    assert loads.check().ok is None


def test_a_log_tells_the_load_again_byte_for_byte(tmp_path: Path) -> None:
    course = Course(SPEC, tmp_path)
    course.load()
    course.pair(pair_frame([answer_frame("control", 0, 20, 5, ["a", "b"])], at_ns=1, production_sent_ns=0))
    course.carried(said(8.0, 7.9))
    live = to_json(course.ranking())
    course.close()
    replayed = report(tmp_path / SPEC.name / "log.msgpack")
    assert to_json(replayed) == live and check(replayed, "production_load") is True


@pytest.mark.parametrize(
    "broken", [{"span_s": 0}, {"span_s": "x"}, {"arms": None}, {"arms": {"control": "x"}}, {"production": []}]
)
def test_what_is_no_load_is_refused_and_leaves_no_trace_in_the_log(broken: Any, tmp_path: Path) -> None:
    course = Course(SPEC, tmp_path)
    course.load()
    with pytest.raises(MalformedError):
        course.carried({**said(8.0, 8.0), **broken})
    course.close()
    assert list(LogReader(tmp_path / SPEC.name / "log.msgpack")) == []


def test_marked_pairs_are_kept_and_not_judged(tmp_path: Path) -> None:
    course = Course(SPEC, tmp_path)
    course.load()
    for number, mark in enumerate(["warm_up", "warm_up", "drain"]):
        answers = [answer_frame("control", 0, 20, 5, ["a", "b"])]
        course.pair(pair_frame(answers, "calibration", at_ns=number, id=f"p{number}", mark=mark))
    ranking = course.ranking()
    assert ranking["marked_pairs"] == {"drain": 1, "warm_up": 2} and ranking["pairs"] == 3
    assert ranking["calibration"]["pairs"] == 0 and ranking["control"]["n"] == 0
    course.close()


def test_the_calibrations_doubled_requests_are_no_part_of_the_load() -> None:
    trial = Trial(SPEC)
    trial.load(said(8.0, 16.0))
    trial.calibrate()
    trial.load(said(8.0, 8.1))
    assert trial.ranking()["load"]["control_of_production"] == pytest.approx(8.1 / 8.0)
