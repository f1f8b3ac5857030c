"""Are two answers the same, to the letter?"""

from dataclasses import dataclass

from analysis.metrics._metric import Metric, Symmetry, Unit, average, matched, spoken
from analysis.transcript import Content


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """1 where a choice is the same, else 0; mean over choices. Falls with length: see the floor."""

    same: float = 1.0
    symmetry: Symmetry = "even"
    unit: Unit = "share"

    def score(self, control: Content, candidate: Content) -> float | None:
        pairs = matched(control, candidate)
        return average([1.0 if spoken(ours) == spoken(theirs) else 0.0 for ours, theirs in pairs])


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return ExactMatch()
