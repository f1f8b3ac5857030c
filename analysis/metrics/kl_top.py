"""How far are two answers' distributions apart, by the likeliest tokens of each place?"""

from dataclasses import dataclass

from analysis.metrics._logprobs import coarse, divergence, same_contexts
from analysis.metrics._metric import Metric, Symmetry, Unit, average
from analysis.transcript import Content


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class KlTop:
    """Half of KL both ways, over the tokens that both tell and one for the rest; mean over the same places.

    Coarser than the vocabulary, so never above the true divergence (the data processing inequality).
    """

    same: float = 0.0
    symmetry: Symmetry = "even"
    unit: Unit = "nats"

    def score(self, control: Content, candidate: Content) -> float | None:
        terms = []
        for ours, theirs in same_contexts(control, candidate):
            if (pair := coarse(ours, theirs)) is not None:
                p, q = pair
                terms.append((divergence(p, q) + divergence(q, p)) / 2.0)
        return average(terms)


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return KlTop()
