"""Conversations at production's engines and at a control, in virtual time, by the code that decides."""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from math import pi, sin
from random import Random

from analysis.loads import Loads
from mirror.matching import Matching
from mirror.sample import Sampler, copies_of

S = 1_000_000_000
_SALT = b"salt"

# How many times their usual number conversations begin at each moment; none exceeds `_MOST`.
STEADY: Callable[[float], float] = lambda at_s: 1.0  # noqa: E731
BURSTS: Callable[[float], float] = lambda at_s: 3.1 if at_s % 120.0 < 30.0 else 0.3  # noqa: E731
SLOW: Callable[[float], float] = lambda at_s: 1.0 + 0.6 * sin(2 * pi * at_s / 3600.0)  # noqa: E731
_MOST = 3.1


@dataclass(frozen=True, slots=True)
class Traffic:
    """`per_s` conversations begin a second; each has `turns` in the mean, `think_s` after an answer the next.

    An answer takes 0.3 s and 20 ms a token, of which there are some 200 (log-normal, 0.8); and 1 % more for
    each other one that is in flight at its engine.  The control's take `slowness` times as long.
    """

    per_s: float
    shape: Callable[[float], float] = STEADY
    turns: float = 3.0
    think_s: float = 8.0
    slowness: float = 1.0
    engines: int = 4


@dataclass(slots=True)
class Seen:
    """Integrals of what was in flight, by second: of one production engine and of the control; the rates."""

    production: list[float]
    control: list[float]
    rates: list[float]
    loads: Loads

    def ratio(self, from_s: int, to_s: int) -> float:
        """The control's integral over this time, by that of one production engine."""
        return (self.control[to_s] - self.control[from_s]) / (self.production[to_s] - self.production[from_s])


def simulated(traffic: Traffic, seconds: int, seed: int, *, auto: bool = True) -> Seen:
    """The traffic for so long; its share begins at one over the number of engines and is set if `auto`.

    Conversations are admitted at their first turn, as workers do and at the rate they were told last; how
    often each is sent is decided then.
    """
    rng, engines = Random(seed), traffic.engines
    matching = Matching(1.0 / engines, auto=auto)
    sampler = Sampler(_SALT, 1.0 / engines)
    due: list[tuple[float, int, Callable[[float], None]]] = []
    inflight, busy_s, last_s, number = [0, 0], [0.0, 0.0], 0.0, 0
    seen = Seen([0.0], [0.0], [matching.rate], Loads())

    def at(when_s: float, happens: Callable[[float], None]) -> None:
        nonlocal number
        number += 1
        heappush(due, (when_s, number, happens))

    def starts(now_s: float) -> None:
        at(now_s + rng.expovariate(traffic.per_s * _MOST), starts)
        if rng.random() * _MOST < traffic.shape(now_s):
            root, left = rng.getrandbits(64), 1
            while rng.random() > 1.0 / traffic.turns:
                left += 1
            times = copies_of(_SALT, root, matching.rate) if sampler.admits(root, 0) else 0
            asks(now_s, left, times)

    def asks(now_s: float, left: int, times: int) -> None:
        takes_s = 0.3 + 0.02 * 200.0 * rng.lognormvariate(-0.32, 0.8)

        def answered(now_s: float) -> None:
            inflight[0] -= 1
            if left > 1:
                next_s = now_s + rng.expovariate(1.0 / traffic.think_s)
                at(next_s, lambda now_s: asks(now_s, left - 1, times))

        def copy_answered(now_s: float) -> None:
            inflight[1] -= 1

        at(now_s + takes_s * (1.0 + 0.01 * inflight[0] / engines), answered)
        inflight[0] += 1
        for _ in range(times):
            at(now_s + takes_s * traffic.slowness * (1.0 + 0.01 * inflight[1]), copy_answered)
            inflight[1] += 1

    def ticks(now_s: float) -> None:
        at(now_s + 1.0, ticks)
        now_ns = int(now_s * S)
        matching.production(0, now_ns, int(busy_s[0] * S), engines)
        if (found := matching.look(now_ns, {"control": int(busy_s[1] * S)})) is not None:
            sampler.renew(found.rate)
            seen.loads.add(found.frame())
        seen.production.append(busy_s[0] / engines)
        seen.control.append(busy_s[1])
        seen.rates.append(matching.rate)

    at(rng.expovariate(traffic.per_s * _MOST), starts)
    at(1.0, ticks)
    while len(seen.rates) <= seconds:
        now_s, _, happens = heappop(due)
        for side in (0, 1):
            busy_s[side] += inflight[side] * (now_s - last_s)
        last_s = now_s
        happens(now_s)
    return seen
