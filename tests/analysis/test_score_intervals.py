"""Where may the interval of a score be told, and what is said where not?"""

from math import log
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from analysis.metrics._metric import Unit
from analysis.outputs import outputs_shown
from analysis.score_intervals import MOST, cut, score_interval, why_no_interval
from analysis.stats.windows import Windows
from analysis.verdict import Spread
from tests.analysis.trials import ranked, records

every_unit = pytest.mark.parametrize("unit", MOST)


def shown(values: list[float], name: str) -> dict[str, Any]:
    """What is told of one metric of which each of five pairs in a window scores this."""
    windows = Windows(5, 5)
    for n, value in enumerate(values):
        for pair in range(5):
            windows.add(5 * n + pair, {f"{name} quick": value})
    windows.finish()
    told = outputs_shown(windows, "quick", 0.05, {name: Spread(0.0, 0.1)})
    return dict(told[name])


def test_below_fifteen_windows_no_interval_is_told_and_it_is_said_why() -> None:
    assert why_no_interval(14) == "14 windows, 15 needed"
    assert why_no_interval(15) is None
    assert shown([0.0] * 14, "kl_k3")["why"] == "14 windows, 15 needed"


@every_unit
def test_answers_that_are_all_alike_have_an_interval_for_a_run_of_others_is_imagined(unit: Unit) -> None:
    found = score_interval(np.zeros(400), unit, 9.0, 0.05)
    most = 25 * MOST[unit] / (9 * 400)
    assert found is not None and most < found.upper < 5 * most
    assert found.lower == -found.upper


@every_unit
def test_no_score_counts_more_than_the_run_imagines(unit: Unit) -> None:
    scores = cut(np.array([-1e9, -0.5, np.nan, 0.0, 0.5, 1e9]), unit)
    assert np.nanmax(np.abs(scores)) == MOST[unit]
    assert np.isnan(scores[2]) and scores[[1, 3, 4]].tolist() == [-0.5, 0.0, 0.5]


def test_the_imagined_run_is_as_many_answers_however_many_a_window_holds() -> None:
    """So the same pairs in fewer, larger windows say about the same."""
    small, large = (score_interval(np.zeros(3600 // held), "share", held, 0.05) for held in (9, 36))
    assert small is not None and large is not None
    assert small.upper == pytest.approx(large.upper, rel=0.3)


@pytest.mark.parametrize("name", ["kl_k3", "kl_top", "length_ratio", "logprob_gap", "exact_match"])
def test_a_mean_has_its_interval_and_no_reason_whatever_it_is_of(name: str) -> None:
    for values in ([0.0] * 30, [0.0] * 29 + [1.0], [0.0, 1.0] * 15):
        told = shown(values, name)
        assert told["why"] is None and told["excess"] is not None
        assert isinstance(told["lower"], float) and isinstance(told["upper"], float)
        assert told["lower"] <= told["value"] < told["upper"]


def test_no_end_of_an_interval_lies_beyond_what_a_mean_can_be() -> None:
    """Of fifteen windows the imagined run says nearly nothing."""
    ratios, nats = shown([0.0] * 15, "length_ratio"), shown([0.0] * 15, "kl_k3")
    assert (ratios["lower"], ratios["upper"]) == (pytest.approx(0.1), pytest.approx(10.0))
    assert (nats["lower"], nats["upper"]) == (0.0, 1.0)


def test_where_nothing_was_measured_it_is_said_why_and_in_the_calibration_that_it_is_not_over() -> None:
    windows = Windows(5, 5)
    windows.add_many(np.arange(100), {"exact_match quick": np.zeros(100)}, lambda: None)
    windows.finish()
    told = outputs_shown(windows, "quick", 0.05, {})
    assert told["exact_match"]["why"] is None
    assert "0 windows in which answers have anything of the kind" in told["tools_valid"]["why"]
    assert outputs_shown(None, "quick", 0.05, {})["kl_k3"]["why"] == "the calibration is not over"


def test_scores_beyond_the_most_count_as_the_most_of_a_candidate_and_of_the_floor() -> None:
    """Else one answer a million times as long as the control's would be all that a mean tells."""
    far = [
        replace(record, outputs={arm: {"length_ratio": log(1e6) * (n % 2)} for arm in record.outputs})
        for n, record in enumerate(records(400))
    ]
    told = ranked(far)["candidates"][0]["outputs"]["length_ratio"]
    assert told["value"] == pytest.approx(10.0**0.5, rel=0.05)
    assert told["floor"] == pytest.approx(10.0**0.5, rel=0.05)
