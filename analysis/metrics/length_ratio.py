"""How much longer is one answer than the other?"""

from dataclasses import dataclass
from math import log
from typing import Literal

from analysis.metrics._metric import Metric
from analysis.transcript import Content


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class LengthRatio:
    """log(candidate tokens / control tokens); None where the two were not counted in the same way."""

    same: float = 0.0
    symmetry: Literal["even", "odd"] = "odd"

    def score(self, control: Content, candidate: Content) -> float | None:
        ours, theirs = control.completion_tokens, candidate.completion_tokens
        if not ours or not theirs or control.token_source != candidate.token_source:
            return None
        return log(theirs) - log(ours)


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return LengthRatio()
