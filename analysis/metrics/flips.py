"""How often is another token the likeliest, in the same place?"""

from dataclasses import dataclass

from analysis.metrics._logprobs import likeliest, margin, same_contexts
from analysis.metrics._metric import Metric, Symmetry, Unit, average
from analysis.transcript import Content


@dataclass(frozen=True, slots=True)
class Params:
    """`margin_nats`: by how much the likeliest token must be ahead of the next."""

    margin_nats: float = 0.0


@dataclass(frozen=True, slots=True)
class Flips:
    """The share of places where the likeliest tokens differ and both answers were surer than `margin_nats`.

    With a margin those are left out that a rounding error decides. None where no alternatives are told.
    """

    margin_nats: float

    same: float = 0.0
    symmetry: Symmetry = "even"
    unit: Unit = "share"

    def score(self, control: Content, candidate: Content) -> float | None:
        flips = []
        for ours, theirs in same_contexts(control, candidate):
            mine, other = margin(ours), margin(theirs)
            if mine is None or other is None:
                continue
            sure = min(mine, other) > self.margin_nats
            flips.append(float(sure and likeliest(ours) != likeliest(theirs)))
        return average(flips)


def build(params: Params) -> Metric:
    """The metric with these parameters."""
    return Flips(params.margin_nats)
