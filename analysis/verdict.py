"""Is a candidate faster, does it answer otherwise, and how sure is that?  Labels from window means."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log1p
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from analysis.stats.sequence import FEWEST_UNITS, OF_LATENCIES, Groups, asymptotic_radius, long_run_sd

Label = Literal["FASTER", "SLOWER", "EQUIVALENT", "UNDECIDED"]
OutputsLabel = Literal["SAME", "DIVERGES", "UNDECIDED"]

# Answers that part from the control's in more than 2 % of their length beyond the floor are other answers.
DIVERGENCE_MARGIN = 0.02


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean of windows with its confidence sequence at this moment. For latencies all are logs of ratios.

    `sd` is the windows' standard deviation, or more where neighbouring windows depend on each other.
    """

    mean: float
    radius: float
    units: int
    sd: float

    @property
    def lower(self) -> float:
        return self.mean - self.radius

    @property
    def upper(self) -> float:
        return self.mean + self.radius


def log_margin(margin: float) -> float:
    """The margin as a log: 0.03 means a ratio between 1/1.03 and 1.03, the same both ways."""
    return log1p(margin)


def interval(
    means: NDArray[np.float64], alpha: float, prior: float = 0.0, groups: Groups = OF_LATENCIES
) -> Interval | None:
    """The asymptotic confidence sequence of these window means; None below two.

    `prior` is added to the sum of squares. Fractions need it: fifteen windows without one difference have no
    variance, and yet do not prove that there are none.
    """
    units = len(means)
    if units < 2:
        return None
    mean = float(np.sum(means)) / units
    sd = long_run_sd(means, prior, groups)
    return Interval(mean, asymptotic_radius(sd, units, alpha), units, sd)


def share_interval(counts: Sequence[tuple[int, int]], alpha: float) -> Interval | None:
    """The share of answers that are amiss, by window (amiss, answers); None below two windows."""
    if not counts:
        return None
    # One imagined answer amiss in one window: units that never differ have no variance and prove no zero.
    prior = (len(counts) / sum(answers for _, answers in counts)) ** 2
    return interval(np.array([amiss / answers for amiss, answers in counts]), alpha, prior)


def judge(found: Interval | None, margin: float) -> Label:
    """What the interval says, `margin` being a log. Nothing below 15 windows."""
    if found is None or found.units < FEWEST_UNITS:
        return "UNDECIDED"
    if found.upper < -margin:
        return "FASTER"
    if found.lower > margin:
        return "SLOWER"
    if -margin < found.lower and found.upper < margin:
        return "EQUIVALENT"
    return "UNDECIDED"


def progress(found: Interval | None, margin: float) -> float:
    """How far the way to a decision is gone, 0 to 1, if the mean stays where it is.

    Radii shrink with the root of the number of windows, so a share (needed / radius)^2 of them is there;
    never more than the share of the fifteen without which nothing is said.
    """
    if found is None:
        return 0.0
    needed = abs(abs(found.mean) - margin)
    shrunk = 1.0 if found.radius <= needed else (needed / found.radius) ** 2
    return min(shrunk, found.units / FEWEST_UNITS, 1.0)


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean with its radius, over the pairs of the calibration."""

    mean: float
    radius: float

    @property
    def lower(self) -> float:
        return self.mean - self.radius

    @property
    def upper(self) -> float:
        return self.mean + self.radius


def outputs_label(divergence: Interval | None, floor: Spread | None) -> OutputsLabel:
    """Whether the candidate's answers part from the control's more than the control's own do.

    Never where that could not be seen (`outputs_unseen`).
    """
    if divergence is None or floor is None or divergence.units < FEWEST_UNITS or outputs_unseen(floor):
        return "UNDECIDED"
    if divergence.lower - min(1.0, floor.upper) > DIVERGENCE_MARGIN:
        return "DIVERGES"
    if divergence.upper - max(0.0, floor.lower) < DIVERGENCE_MARGIN:
        return "SAME"
    return "UNDECIDED"


def outputs_unseen(floor: Spread | None) -> str | None:
    """Why nobody could see a candidate's answers part more than the control's own; None where one could."""
    if floor is None or floor.upper <= 1.0 - DIVERGENCE_MARGIN:
        return None
    return (
        f"the control's own answers may part from each other in {min(1.0, floor.upper):.0%} of their length,"
        " so that a candidate's could not be seen to part more: copy requests at temperature 0, or calibrate"
        " with more pairs"
    )


def ratio(logarithm: float) -> float | None:
    """The ratio of a log; None where it is infinite."""
    return None if logarithm in (inf, -inf) else exp(logarithm)
