"""Where it is not said whether answers are the control's: what is lacking is true and mends it."""

import re

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.lacking import outputs_lacking, windows_needed
from analysis.outputs import outputs_shown
from analysis.score_intervals import prior_of, score_interval
from analysis.verdict import DIVERGENCE_MARGIN, Interval, Spread, outputs_label

ALPHA, HELD = 0.025, 8.0
PRIOR = prior_of("share", HELD)
EXACT = Spread(0.0, 0.001)


def seen(means: NDArray[np.float64]) -> Interval:
    found = score_interval(means, "share", HELD, ALPHA)
    assert found is not None
    return found


def lacking(found: Interval | None, floor: Spread | None) -> str | None:
    return outputs_lacking(found, floor, PRIOR, ALPHA)


def needed(said: str | None) -> int:
    about = re.search(r"about ([\d,]+) are needed", said or "")
    assert about is not None, said
    return int(about[1].replace(",", ""))


@pytest.mark.parametrize(("share", "now"), [(0.0, 20), (0.0, 80), (0.004, 80), (0.05, 80), (0.3, 20)])
def test_the_windows_that_it_asks_for_are_those_after_which_it_is_said(share: float, now: int) -> None:
    every = np.array([0.5 * share, 1.5 * share] * 5000)  # so that mean and spread stay as they are
    first = seen(every[:now])
    wanted = needed(lacking(first, EXACT))
    assert wanted > now
    label = "SAME" if share < DIVERGENCE_MARGIN else "DIVERGES"
    assert outputs_label(seen(every[: round(1.05 * wanted)]), EXACT) == label
    assert outputs_label(seen(every[: round(0.9 * wanted)]), EXACT) == "UNDECIDED"


def test_where_it_is_said_nothing_is_lacking() -> None:
    for mean in (0.0, 0.5):
        assert lacking(Interval(mean, 0.001, 400, 0.1), EXACT) is None


def test_the_windows_needed_are_the_first_that_do_and_none_where_nobody_waits() -> None:
    found = Interval(0.0, 0.05, 100, 0.1)
    first = windows_needed(found, 0.02, 0.0, ALPHA)
    assert first is not None and first > 100
    assert windows_needed(found, 1e-6, 0.0, ALPHA) is None
    assert "more than 10,000,000" in str(lacking(Interval(DIVERGENCE_MARGIN - 1e-6, 0.05, 100, 0.1), EXACT))


def test_below_fifteen_windows_it_says_how_many_there_are() -> None:
    assert lacking(seen(np.zeros(14)), EXACT) == "14 windows of compared texts, 15 needed"
    assert lacking(None, EXACT) == "fewer than 2 windows of compared texts, 15 needed"


def test_a_floor_that_is_known_too_badly_asks_for_a_calibration_that_would_do() -> None:
    found, floor = Interval(0.03, 0.001, 4000, 0.03), Spread(0.03, 0.024)
    said = lacking(found, floor)
    assert said is not None and "more of its answers will not" in said
    times = re.search(r"about (\d+) times as many pairs \(calibration_pairs\)", said)
    assert times is not None
    known = Spread(floor.mean, floor.radius / int(times[1]) ** 0.5)
    assert lacking(found, floor) != lacking(found, known)
    assert outputs_label(found, known) == "SAME"
    assert outputs_label(found, Spread(floor.mean, floor.radius / 1.05)) == "UNDECIDED"


def test_at_the_margin_itself_no_calibration_is_asked_for() -> None:
    said = lacking(Interval(0.05, 0.001, 4000, 0.03), Spread(0.03, 0.01))
    assert said is not None and "it lies at the margin itself" in said and "calibration_pairs" not in said


def test_without_a_floor_it_says_why_there_is_none_and_in_the_calibration_that_it_is_not_over() -> None:
    said = lacking(seen(np.zeros(40)), None)
    assert said is not None and "no two texts of the control" in said and "begin anew" in said
    shown = outputs_shown(None, "quick", 0.05, {})
    assert shown["label"] == "UNDECIDED" and shown["lacking"] == "the calibration is not over"
