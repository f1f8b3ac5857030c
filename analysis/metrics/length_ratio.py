"""How much longer is one answer than the other?"""

from dataclasses import dataclass
from math import log

from analysis.metrics._metric import Metric, Symmetry, Unit, matched
from analysis.transcript import Content


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class LengthRatio:
    """log(candidate tokens / control tokens); None where the two were not counted in the same way.

    Of several choices it is the mean of theirs, or, where only all together were counted, that of the sums.
    """

    same: float = 0.0
    symmetry: Symmetry = "odd"
    unit: Unit = "ratio"

    def score(self, control: Content, candidate: Content) -> float | None:
        ours, theirs = control.completion_tokens, candidate.completion_tokens
        if not ours or not theirs or control.token_source != candidate.token_source:
            return None
        pairs = [(a.tokens, b.tokens) for a, b in matched(control, candidate)]
        each = [log(b) - log(a) for a, b in pairs if a and b]
        if len(each) == len(pairs) > 1:
            return sum(each) / len(each)
        return log(theirs) - log(ours)


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return LengthRatio()
