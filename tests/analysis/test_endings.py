"""However an answer ends, whose fault that is: nobody gains by an answer that did not come."""

from collections.abc import Callable
from math import inf, isnan
from typing import Any

import numpy as np
import pytest

from analysis.columns import Columns
from analysis.measure import LATENCIES, measure
from analysis.rates import Rates
from analysis.series import contrasts
from analysis.spec import ExperimentSpec
from mirror.pair import UNANSWERED, Joiner, no_answer
from mirror.readiness import NOT_READY
from tests.analysis.fleet import MS, answer_frame, chat_stream, pair_frame

WORDS = ["one", " two", " three"]
SPEC = ExperimentSpec("trial", "fleet", ("other",))
ERROR = b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'


def heard(arm: str, **more: Any) -> dict[str, Any]:
    return answer_frame(arm, 0, 100.0, 10.0, WORDS, **more)


def silent(arm: str, ending: str) -> dict[str, Any]:
    return no_answer((arm, 0), 0, 0, 9_000 * MS, ending)


def partly(arm: str, ending: str) -> dict[str, Any]:
    whole = heard(arm)
    return {**whole, "reads": whole["reads"][:2], "ending": ending}


FAULTS: dict[str, Callable[[str], dict[str, Any]]] = {
    "it never answers": lambda arm: silent(arm, UNANSWERED),
    "it goes before its turn": lambda arm: silent(arm, NOT_READY),
    "it says nothing in the time allowed": lambda arm: silent(arm, "timeout"),
    "it takes no connection": lambda arm: silent(arm, "refused"),
    "it begins and does not end in the time allowed": lambda arm: partly(arm, "timeout"),
    "it is cut": lambda arm: partly(arm, "cut"),
    "it stops without saying how": lambda arm: {
        **heard(arm),
        "reads": [[100 * MS, b"".join(chat_stream(WORDS, finish=None)[:-1])]],
    },
    "it is no HTTP": lambda arm: partly(arm, "malformed"),
    "it does not end within what is kept": lambda arm: partly(arm, "too_large"),
    "it is an error": lambda arm: {**silent(arm, "complete"), "status": 500},
    "it is an error inside a 200": lambda arm: {
        **heard(arm),
        "reads": [[100 * MS, chat_stream(WORDS)[1]], [110 * MS, ERROR]],
    },
    "it says no word": lambda arm: {**heard(arm), "reads": [[100 * MS, b"".join(chat_stream([]))]]},
}


def said(control: dict[str, Any], other: dict[str, Any]) -> tuple[list[float], float | None]:
    """The contrast of each latency, and how much oftener the candidate is said to have failed."""
    columns = Columns.of([measure(pair_frame([control, other]))])
    found = [contrasts(columns.side("control"), columns.side("other"), latency)[0] for latency in LATENCIES]
    differs = Rates("other", SPEC, {}).add(columns).get("errors other")
    return [float(one) for one in found], None if differs is None else float(differs[0])


@pytest.mark.parametrize("how", FAULTS)
def test_an_answer_that_failed_takes_the_worst_rank_against_its_own_arm(how: str) -> None:
    fails = FAULTS[how]
    assert said(heard("control"), fails("other")) == ([inf] * len(LATENCIES), 1.0)
    assert said(fails("control"), heard("other")) == ([-inf] * len(LATENCIES), -1.0)


@pytest.mark.parametrize("how", FAULTS)
def test_what_both_fail_says_nothing_of_either(how: str) -> None:
    latencies, differs = said(FAULTS[how]("control"), FAULTS[how]("other"))
    assert all(map(isnan, latencies)) and differs == 0.0


@pytest.mark.parametrize("arm", ["control", "other"])
def test_what_the_shadow_itself_gave_up_says_nothing(arm: str) -> None:
    both = {"control": heard("control"), "other": heard("other"), arm: partly(arm, "cancelled")}
    latencies, differs = said(both["control"], both["other"])
    assert all(map(isnan, latencies)) and differs is None


def test_an_answer_that_came_is_compared_by_its_times() -> None:
    latencies, differs = said(heard("control"), answer_frame("other", 0, 200.0, 20.0, WORDS))
    assert np.isclose(latencies, [np.log(2.0)] * len(LATENCIES)).all() and differs == 0.0


def test_a_copy_that_no_arm_was_sent_is_no_pair_and_says_nothing_of_any() -> None:
    pairs: list[dict[str, Any]] = []
    joiner = Joiner("trial", lambda pair: pairs.append(pair), patience_ns=1, deadline_ns=10)
    joiner.drop("lane_full", 3)
    joiner.expire(1_000)
    assert pairs == [] and joiner.books()["dropped"] == {"lane_full": 3}


def test_a_silent_arms_pair_is_measured_as_a_failure_from_the_books_to_the_ranks() -> None:
    pairs: list[dict[str, Any]] = []
    joiner = Joiner("trial", lambda pair: pairs.append(pair), patience_ns=1, deadline_ns=10)
    head = {name: value for name, value in pair_frame([]).items() if name not in ("answers", "production")}
    joiner.open("p1", head, [("control", 0), ("other", 0)], 1, 0, alone=True)
    joiner.answered("p1", heard("control"), 5)
    joiner.expire(10)
    record = measure(pairs[0])
    other = record.answer("other")
    assert other is not None and other.fault == "unanswered" and record.outputs == {}
    columns = Columns.of([record])
    assert contrasts(columns.side("control"), columns.side("other"), "ttft")[0] == inf
