"""How far may the mean of a score of answers be from what was seen, and where can that not be told?"""

from collections.abc import Mapping
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from analysis.metrics._metric import Unit
from analysis.modes import LIVE, units_of
from analysis.stats.sequence import FEWEST_UNITS, OF_SCORES
from analysis.verdict import Interval, interval

RUN = 25.0  # answers in a row that are imagined to score the most there is

# The most that one pair's score counts, either way: what is beyond is cut, for without a most a few pairs
# that nobody has seen yet may change a mean by any amount.  A ratio is a log, here that of 10 or of 1/10.
MOST: Mapping[Unit, float] = {"share": 1.0, "difference": 1.0, "ratio": log(10.0), "nats": 1.0}

NEVER_BELOW_0: tuple[Unit, ...] = ("share", "nats")


def reach(unit: Unit) -> tuple[float, float]:
    """What a mean can be at least and at most, as it is shown: a ratio, not its log."""
    most = MOST[unit]
    if unit == "ratio":
        return exp(-most), exp(most)
    return (0.0 if unit in NEVER_BELOW_0 else -most), most


def cut(scores: NDArray[np.float64], unit: Unit) -> NDArray[np.float64]:
    """The scores as far as they count; NaN stays."""
    return np.clip(scores, -MOST[unit], MOST[unit])


def cut_one(score: float, unit: Unit) -> float:
    """`cut` of one score."""
    return min(MOST[unit], max(-MOST[unit], score))


def prior_of(unit: Unit, pairs_per_unit: float) -> float:
    """What is added to the sum of squares of window means.

    Answers that differ may be rare and come in runs, while latencies, by which windows are as long as they
    are, do neither: what was not yet seen shows in no spread.  So one run of them is imagined.
    """
    return (RUN * MOST[unit] / pairs_per_unit) ** 2 if pairs_per_unit else 0.0


def score_interval(
    means: NDArray[np.float64], unit: Unit, pairs_per_unit: float, alpha: float
) -> Interval | None:
    """The confidence sequence of a score's window means; None below two windows."""
    return interval(means, alpha, prior_of(unit, pairs_per_unit), OF_SCORES)


def why_no_interval(units: int, mode: str = LIVE) -> str | None:
    """Why the interval would miss the mean more often than it says; None where it may be told."""
    return f"{units} {units_of(mode)}, {FEWEST_UNITS} needed" if units < FEWEST_UNITS else None
