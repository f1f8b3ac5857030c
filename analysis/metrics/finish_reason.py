"""Did two answers end for the same reason?"""

from dataclasses import dataclass

from analysis.metrics._metric import Metric, Symmetry, Unit, average, matched
from analysis.transcript import Content


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class FinishReason:
    """1 where the reasons agree, else 0; mean over the choices that both have one."""

    same: float = 1.0
    symmetry: Symmetry = "even"
    unit: Unit = "share"

    def score(self, control: Content, candidate: Content) -> float | None:
        return average(
            [
                1.0 if ours.finish_reason == theirs.finish_reason else 0.0
                for ours, theirs in matched(control, candidate)
                if ours.finish_reason is not None and theirs.finish_reason is not None
            ]
        )


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return FinishReason()
