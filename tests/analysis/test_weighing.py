"""By what candidates are weighed: one score of what counts, and none where one of that says nothing."""

from math import log
from typing import Any

import pytest

from analysis.race import weights_of
from analysis.spec import RaceSpec
from analysis.weighing import Weights, is_withheld, score, units, usual, words

BOTH: Weights = {"ttft": 1.0, "tpot": 3.0}


def candidate(**latencies: dict[str, Any]) -> dict[str, Any]:
    """With verdicts of these; what is not said is as the control's, of twenty windows."""
    alike = {"ratio": 1.0, "units": 20, "withheld": None}
    return {"verdicts": {name: alike | latencies.get(name, {}) for name in ("ttft", "tpot", "e2e")}}


def test_a_score_is_the_weighted_mean_of_the_logs_of_the_ratios() -> None:
    assert score(candidate(ttft={"ratio": 0.4}, tpot={"ratio": 1.05}), BOTH) == pytest.approx(
        (log(0.4) + 3.0 * log(1.05)) / 4.0
    )
    assert score(candidate(e2e={"ratio": 9.0}), BOTH) == 0.0


def test_there_is_none_where_one_that_counts_has_no_ratio() -> None:
    assert score(candidate(tpot={"ratio": None}), BOTH) is None
    assert score(candidate(e2e={"ratio": None}), BOTH) == 0.0


def test_it_has_as_many_windows_as_the_one_that_has_fewest() -> None:
    assert units(candidate(ttft={"units": 7}, e2e={"units": 3}), BOTH) == 7


def test_it_is_withheld_where_one_that_counts_is() -> None:
    assert is_withheld(candidate(ttft={"withheld": "a cache still fills"}), BOTH)
    assert not is_withheld(candidate(e2e={"withheld": "a cache still fills"}), BOTH)


def test_the_first_token_and_each_further_one_count_alike_and_the_whole_answer_where_nothing_streams() -> (
    None
):
    assert usual(is_streamed=True) == {"ttft": 1.0, "tpot": 1.0} and usual(is_streamed=False) == {"e2e": 1.0}
    whole = candidate(ttft={"units": 0}, tpot={"units": 0})
    assert weights_of(None, [whole]) == weights_of(RaceSpec(), [whole]) == {"e2e": 1.0}
    assert weights_of(RaceSpec(), [whole, candidate()]) == usual(is_streamed=True)
    assert weights_of(RaceSpec(weights={"tpot": 2.0, "ttft": 1.0}), [whole]) == {"ttft": 1.0, "tpot": 2.0}


def test_weights_are_told_in_words() -> None:
    assert words({"tpot": 5.0}) == "TPOT" and words(usual(is_streamed=True)) == "TTFT and TPOT alike"
    assert words(BOTH) == "1 TTFT and 3 TPOT"
