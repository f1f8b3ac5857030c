"""How far may the mean of a score of answers be from what was seen, and where can that not be told?"""

from collections.abc import Mapping
from math import inf

import numpy as np
from numpy.typing import NDArray

from analysis.metrics._metric import Unit
from analysis.stats.sequence import FEWEST_UNITS, OF_SCORES
from analysis.stats.skewness import fewest_units
from analysis.verdict import Interval, interval

RUN = 25.0  # answers in a row that are imagined to score the most there is
MOST: Mapping[Unit, float] = {"share": 1.0, "difference": 1.0}  # of others there is no most


def prior_of(unit: Unit, pairs_per_unit: float) -> float:
    """What is added to the sum of squares of window means.

    Answers that differ may be rare and come in runs, while latencies, by which windows are as long as they
    are, do neither: what was not yet seen shows in no spread.  So one run of them is imagined.
    """
    return (RUN * MOST.get(unit, 0.0) / pairs_per_unit) ** 2 if pairs_per_unit else 0.0


def score_interval(
    means: NDArray[np.float64], unit: Unit, pairs_per_unit: float, alpha: float
) -> Interval | None:
    """The confidence sequence of a score's window means; None below two windows."""
    return interval(means, alpha, prior_of(unit, pairs_per_unit), OF_SCORES)


def why_no_interval(means: NDArray[np.float64], unit: Unit) -> str | None:
    """Why the interval would miss the mean more often than it says; None where it may be told.

    What has a most there is is told with it in mind.  Without one a few answers that nobody has seen yet may
    change a mean by any amount: nothing but what was seen tells how probable that is.
    """
    units = len(means)
    if units < FEWEST_UNITS:
        return f"{units} windows, {FEWEST_UNITS} needed"
    if unit in MOST:
        return None
    needed = fewest_units(means)
    if needed == inf:
        return "all alike so far: how seldom they are not cannot be told"
    if units < needed:
        return f"a few answers are far from the others: {units} windows, about {needed:.0f} needed"
    return None
