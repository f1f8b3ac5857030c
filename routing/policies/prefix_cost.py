"""The engine where this request costs the least time, to itself and to those who are there already.

    n       = L - held - credit * below              its tokens that must be computed there
    own_s   = r * n + a * n * (L - n / 2)            r: seconds a token; a: attention's square term
    wait_s  = start + r * pending                    what waits there for its first token comes first
    token_s = itl + k * (2 b + 1)                    in a batch of b + 1; k again for each of the b
    kv_s    = pressure_s * u / (1 - u)               u: the share of the KV cache that is in use
    cost_s  = wait_s + (1 + later) * own_s + decode * O * token_s + kv_s

r, a, start, itl, k and the length O of an answer are learned (`routing.rates`), and so is how many bytes a
token has, and what of a token's computation is saved where it can be loaded from a lower tier of the cache
(`credit`, 0 until it was seen: `routing.credits`; the router counts it as held). u is what the engine reports
and what was sent since; or, where it only told its size, the prompts in flight, shared beginnings once, and
half of their answers; without a size there is no kv_s. Until an engine of the fleet has been heard often
enough, LMetric decides, which needs no rates: (pending + n) * (b + 1).

A second of computing is a second that whoever comes later waits: in a queue that is five sixths busy, the
work that a request brings delays others by five times itself (rho / (1 - rho)). That is `later`; it keeps
talks where they are held, and makes no difference where nothing is held. `decode` is small because an answer
takes tens of seconds where a first token is to come in one or two.

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

    later: float = 5.0
    """How much a second of computing weighs for those who come later, beside one that this request waits."""
    decode: float = 0.1
    """How much a second of decoding weighs, beside one of waiting for a first token."""
    pressure_s: float = 0.15
    """What a KV cache costs that is half full, in seconds; at nine tenths it is nine times that."""

    temperature_s: float = 0.0
    """Above 0, engines are drawn: each e times less often for so many seconds that it costs more."""

    def __post_init__(self) -> None:
        for name in ("later", "decode", "pressure_s", "temperature_s"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be 0 or more, not {value}")


def build(params: Params) -> Policy:
    return PrefixCost(params.later, params.decode, params.pressure_s, params.temperature_s)
