"""Where may the interval of a score be told, and what is said where not?"""

from math import inf

import numpy as np
import pytest

from analysis.metrics._metric import Unit
from analysis.outputs import output_shown, outputs_shown
from analysis.score_intervals import score_interval, why_no_interval
from analysis.stats.skewness import fewest_units
from analysis.stats.windows import Windows
from analysis.verdict import Spread

FEW, ENOUGH = np.full(14, 0.5), np.full(15, 0.5)


def shown(values: list[float], name: str) -> dict[str, object]:
    """What is told of one metric of which each of five pairs in a window scores this."""
    windows = Windows(5, 5)
    for n, value in enumerate(values):
        for pair in range(5):
            windows.add(5 * n + pair, {f"{name} quick": value})
    windows.finish()
    told = outputs_shown(windows, "quick", 0.05, {name: Spread(0.0, 0.1)})
    return dict(told[name])


@pytest.mark.parametrize("unit", ["share", "difference", "ratio", "nats"])
def test_below_fifteen_windows_no_interval_is_told_and_it_is_said_why(unit: Unit) -> None:
    assert why_no_interval(FEW, unit) == "14 windows, 15 needed"


@pytest.mark.parametrize("unit", ["share", "difference"])
def test_what_has_a_most_is_told_even_where_all_is_alike_for_a_run_of_others_is_imagined(unit: Unit) -> None:
    assert why_no_interval(ENOUGH, unit) is None
    found = score_interval(np.zeros(400), unit, 9.0, 0.05)
    assert found is not None and 25 / (9 * 400) < found.upper < 5 * 25 / (9 * 400)


def test_the_imagined_run_is_as_many_answers_however_many_a_window_holds() -> None:
    """So the same pairs in fewer, larger windows say about the same."""
    small, large = (score_interval(np.zeros(3600 // held), "share", held, 0.05) for held in (9, 36))
    assert small is not None and large is not None
    assert small.upper == pytest.approx(large.upper, rel=0.3)


@pytest.mark.parametrize("unit", ["ratio", "nats"])
def test_of_what_has_no_most_nothing_is_told_where_all_is_alike(unit: Unit) -> None:
    assert "all alike so far" in str(why_no_interval(np.zeros(5_000), unit))


def test_one_answer_far_from_all_others_takes_the_interval_away_and_many_such_bring_it_back() -> None:
    even = 0.01 * np.cos(np.arange(400.0))
    assert why_no_interval(even, "nats") is None
    once = even.copy()
    once[200] = 5.0
    assert "far from the others" in str(why_no_interval(once, "nats"))
    often = even.copy()
    often[::5] = 5.0
    assert why_no_interval(often, "nats") is None


def test_runs_of_windows_that_are_alike_are_worth_fewer() -> None:
    alternating = np.tile([0.0, 1.0], 16)
    in_two_halves = np.repeat([0.0, 1.0], 16)
    assert fewest_units(alternating) == 15 < 32 < fewest_units(in_two_halves)
    assert fewest_units(np.ones(40)) == inf


def test_a_mean_without_an_interval_is_shown_with_the_reason_and_nothing_beyond_the_floor() -> None:
    told = shown([0.0] * 29 + [3.0], "kl_k3")
    assert told["value"] == pytest.approx(0.1)
    assert told["lower"] is told["upper"] is told["excess"] is None
    assert "far from the others" in str(told["why"])


def test_a_share_has_its_interval_and_no_reason() -> None:
    told = shown([0.0, 1.0] * 15, "exact_match")
    assert told["why"] is None and told["excess"] is not None
    assert isinstance(told["lower"], float) and told["lower"] < 0.5


def test_where_nothing_was_measured_there_is_no_reason_either() -> None:
    assert output_shown("nats", None, None, "0 windows, 15 needed")["why"] is None
