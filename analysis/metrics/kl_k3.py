"""How far is the candidate's distribution from the control's, by the tokens the control drew?"""

from dataclasses import dataclass
from math import exp

from analysis.metrics._logprobs import same_contexts
from analysis.metrics._metric import Metric, Symmetry, Unit, average
from analysis.transcript import Content

_MOST = 50.0  # e^50 is as good as never


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class KlK3:
    """Schulman's k3: the mean of r - 1 - log r, r = p of the candidate / p of the control, never below 0.

    Unbiased where the tokens are the control's own at temperature 1, without top-p and top-k: in the forced
    phase. Elsewhere only tokens that both chose are there, and it is too low.
    """

    same: float = 0.0
    symmetry: Symmetry = "none"
    unit: Unit = "nats"

    def score(self, control: Content, candidate: Content) -> float | None:
        terms = []
        for ours, theirs in same_contexts(control, candidate):
            if ours.token == theirs.token:
                d = min(theirs.logprob - ours.logprob, _MOST)
                terms.append(exp(d) - 1.0 - d)
        return average(terms)


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return KlK3()
