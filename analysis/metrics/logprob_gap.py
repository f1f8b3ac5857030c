"""How much less likely are the control's tokens to the candidate?"""

from dataclasses import dataclass

from analysis.metrics._logprobs import same_contexts
from analysis.metrics._metric import Metric, Symmetry, Unit, average
from analysis.transcript import Content


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class LogprobGap:
    """The mean of log p of the control - log p of the candidate, over tokens both chose in the same place.

    Its exponential is the ratio of their perplexities on those tokens. None where logprobs are not told.
    """

    same: float = 0.0
    symmetry: Symmetry = "odd"
    unit: Unit = "ratio"

    def score(self, control: Content, candidate: Content) -> float | None:
        pairs = same_contexts(control, candidate)
        return average(
            [ours.logprob - theirs.logprob for ours, theirs in pairs if ours.token == theirs.token]
        )


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return LogprobGap()
