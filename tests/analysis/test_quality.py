"""Golden requests: each counted once, and the label false no oftener than said, at every look."""

from functools import partial
from math import log
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from analysis.golden import checked, is_golden
from analysis.quality import GOLDEN_MARGIN, Quality
from analysis.stats.eprocess import not_worse_log_evidence
from tests.analysis.fleet import answer_frame, pair_frame


def golden(words: dict[str, list[str]], check: dict[str, Any], **more: Any) -> dict[str, Any]:
    answers = [answer_frame(arm, 0, 10, 10, said) for arm, said in words.items()]
    told = {"id": "set/1", "check": msgspec.json.encode(check)}
    return pair_frame([{**answer, **more.get(answer["arm"], {})} for answer in answers], golden=told)


EXACT = {"kind": "exact", "value": "Oslo"}


def test_each_arms_answer_is_marked_and_its_text_is_not_in_the_marks() -> None:
    frame = golden({"control": ["Os", "lo"], "quick": ["Bergen"]}, EXACT)
    assert is_golden(frame) and not is_golden(pair_frame([]))
    assert checked(frame) == {"id": "set/1", "pair": "p1", "passed": {"control": True, "quick": False}}


def test_an_arm_that_fails_to_answer_has_not_passed_and_one_that_was_given_up_says_nothing() -> None:
    words = {"control": ["Oslo"], "quick": ["Oslo"]}
    for failed in ({"ending": "cut"}, {"ending": "timeout"}, {"status": 500}):  # with the right words in it
        assert checked(golden(words, EXACT, quick=failed))["passed"]["quick"] is False
    assert checked(golden(words, EXACT, quick={"ending": "cancelled"}))["passed"]["quick"] is None


def test_the_table_counts_each_request_once_and_its_columns_are_the_arms() -> None:
    quality = Quality("quick")
    marks = [(True, True), (True, False), (True, False), (False, True), (False, False), (None, True)]
    for number, (ours, theirs) in enumerate(marks):
        for _ in range(2):
            quality.add(f"set/{number}", {"control": ours, "quick": theirs})
    shown = quality.show(0.05)
    counts = {name: shown[name] for name in ("both", "only_control", "only_candidate", "neither", "requests")}
    assert counts == {"both": 1, "only_control": 2, "only_candidate": 1, "neither": 1, "requests": 5}
    assert (shown["control_passed"], shown["candidate_passed"]) == (pytest.approx(0.6), pytest.approx(0.4))
    assert shown["sets"]["set"]["requests"] == 5 and shown["label"] == "UNDECIDED"


def test_exchanging_the_arms_exchanges_the_label_and_keeps_the_evidence() -> None:
    one, other = Quality("quick"), Quality("quick")
    for number in range(40):
        ours, theirs = number % 20 != 0, number % 2 == 0
        one.add(f"s/{number}", {"control": ours, "quick": theirs})
        other.add(f"s/{number}", {"control": theirs, "quick": ours})
    here, there = one.show(0.05), other.show(0.05)
    assert (here["label"], there["label"]) == ("WORSE", "BETTER")
    assert here["e_value"] == pytest.approx(there["e_value"])


def labels(control: float, candidate: float, runs: int, requests: int, seed: int) -> list[set[str]]:
    """The labels seen at any of `requests` looks, in each of so many experiments."""
    rng, seen = Random(seed), []
    for _ in range(runs):
        quality, found = Quality("quick"), set()
        for number in range(requests):
            both = rng.random()
            passed = {"control": both < control, "quick": rng.random() < candidate}
            quality.add(f"s/{number}", passed)
            found.add(quality.show(0.05)["label"])
        seen.append(found)
    return seen


def test_of_two_that_are_alike_at_most_one_in_twenty_is_called_better_or_worse_however_often_one_looks() -> (
    None
):
    seen = labels(0.6, 0.6, runs=300, requests=120, seed=3)
    false = sum(len(found) > 1 for found in seen)
    assert false <= 300 * 0.05 + 3 * (300 * 0.05 * 0.95) ** 0.5


def test_a_candidate_that_is_much_worse_is_called_so() -> None:
    seen = labels(0.8, 0.5, runs=60, requests=200, seed=4)
    assert sum("WORSE" in found for found in seen) >= 50
    assert not any("BETTER" in found for found in seen)


def shown_no_worse(lost: float, gained: float, runs: int, requests: int, seed: int) -> int:
    """In how many experiments it was shown at any look to be no worse, each arm alone right so often."""
    rng, shown = np.random.default_rng(seed), 0
    for _ in range(runs):
        draws = rng.random(requests)
        only_control, only_candidate = (draws < lost).cumsum(), (draws > 1.0 - gained).cumsum()
        looks = zip(range(1, requests + 1), only_control.tolist(), only_candidate.tolist(), strict=True)
        logs = (not_worse_log_evidence(n - a - b, a, b, GOLDEN_MARGIN) for n, a, b in looks)
        shown += any(log_e >= log(20.0) for log_e in logs)
    return shown


@pytest.mark.parametrize(("lost", "gained"), [(0.05, 0.0), (0.2, 0.15)])
def test_one_that_is_worse_by_the_margin_is_hardly_ever_called_no_worse_however_often_one_looks(
    lost: float, gained: float
) -> None:
    assert shown_no_worse(lost, gained, runs=200, requests=400, seed=5) <= 200 * 0.05 + 3 * 3.1


def test_one_that_is_as_good_is_found_to_be_no_worse_in_some_hundreds_of_requests() -> None:
    assert shown_no_worse(0.01, 0.01, runs=50, requests=400, seed=6) >= 40
    assert not_worse_log_evidence(85, 0, 0, GOLDEN_MARGIN) < log(20.0)
    assert not_worse_log_evidence(86, 0, 0, GOLDEN_MARGIN) > log(20.0)


def test_each_request_that_only_the_control_gets_right_weighs_against_and_each_other_for_it() -> None:
    log_e = partial(not_worse_log_evidence, bar=GOLDEN_MARGIN)
    assert log_e(50, 1, 0) < log_e(50, 0, 0) < log_e(51, 0, 0) < log_e(50, 0, 1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        log_e(50, 0, 0, bar=0.0)
