"""The engine where this request costs the least time, to itself and to those who are there already.

    n        = L - held                                      its tokens that must be computed there
    own_s    = r * n + a * n * (L - n / 2)                   r: seconds a token; a: attention's square term
    first_s  = start + r * pending + own_s                   its time to the first token, behind what waits
    decode_s = O * (itl + k * (2 b + 1))                     O tokens in a batch of b + 1; O * k for each of b
    kv_s     = pressure_s * u / (1 - u)                      u: share of the KV cache in use, where told
    cost_s   = first_s + crowding * b * own_s + decode_s + kv_s

r, a, start, itl, k and the length of an answer O are learned of each engine (`routing.rates`); bytes become
tokens at the ratio that is learned too. Until an engine of the fleet has been heard often enough, LMetric
decides, which needs no rates: (pending + uncached bytes) * (b + 1).

There is no threshold and no switch between "cache" and "balance" modes: a hot prefix spreads as soon as
waiting where it is held costs more than computing it once more elsewhere, and one busy engine only makes
itself dearer.
"""

from dataclasses import dataclass
from math import isfinite

from routing.cost import PrefixCost
from routing.policy import Policy


@dataclass(frozen=True, slots=True)
class Params:
    """`ValueError` when a weight is below 0."""

    crowding: float = 1.0
    """How much the delay weighs that computing the prompt brings to each request in flight there."""
    pressure_s: float = 0.15
    """What a KV cache costs that is half full, in seconds; at nine tenths it is nine times that."""

    def __post_init__(self) -> None:
        for name in ("crowding", "pressure_s"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be 0 or more, not {value}")


def build(params: Params) -> Policy:
    return PrefixCost(params.crowding, params.pressure_s)
