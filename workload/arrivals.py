"""When do conversations arrive?  Gaps and instants of three arrival processes, in seconds.

All three are renewal processes of the same mean rate; they differ in the coefficient of variation (CV) of
their gaps: constant 0, Poisson 1, gamma 1/sqrt(shape).  A gamma shape below 1 is burstier than Poisson.
"""

from collections.abc import Iterable, Iterator
from itertools import repeat
from random import Random


def constant(rate: float) -> Iterator[float]:
    """Gaps of a metronome at `rate` arrivals a second (> 0)."""
    return repeat(1.0 / _positive(rate, "rate"))


def poisson(rng: Random, rate: float) -> Iterator[float]:
    """Gaps of a Poisson process at `rate` arrivals a second (> 0): exponential, without memory."""
    _positive(rate, "rate")
    return iter(lambda: rng.expovariate(rate), None)


def gamma(rng: Random, rate: float, shape: float) -> Iterator[float]:
    """Gaps of a gamma renewal process of `rate` arrivals a second; `shape` is vllm bench's burstiness."""
    _positive(rate, "rate")
    _positive(shape, "shape")
    return iter(lambda: rng.gammavariate(shape, 1.0 / (rate * shape)), None)


def instants(gaps: Iterable[float], until_s: float) -> Iterator[float]:
    """The arrival instants that `gaps` lead to, from 0, as long as they are before `until_s`."""
    at_s = 0.0
    for gap in gaps:
        at_s += gap
        if at_s >= until_s:
            return
        yield at_s


def _positive(value: float, name: str) -> float:
    if not value > 0:
        raise ValueError(f"{name} must be above 0, not {value!r}")
    return value
