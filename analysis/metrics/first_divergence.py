"""How much of an answer comes after the first character that differs?"""

from dataclasses import dataclass

from rapidfuzz.distance import Prefix

from analysis.metrics._metric import Metric, Symmetry, Unit, average, matched, spoken
from analysis.transcript import Content


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class FirstDivergence:
    """1 - common prefix / longer answer, mean over choices: 0 the same, 1 different from the start."""

    same: float = 0.0
    symmetry: Symmetry = "even"
    unit: Unit = "share"

    def score(self, control: Content, candidate: Content) -> float | None:
        scores = []
        for ours, theirs in matched(control, candidate):
            a, b = spoken(ours), spoken(theirs)
            longest = max(len(a), len(b))
            scores.append(1.0 - Prefix.similarity(a, b) / longest if longest else 0.0)
        return average(scores)


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return FirstDivergence()
