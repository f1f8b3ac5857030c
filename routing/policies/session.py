"""The engine of the request's session, unless that costs much more than another.

The session is what the client names (`x-session-id`, `prompt_cache_key`, ...), or else the conversation: its
first user message and all before it. Its engine is found by rendezvous hashing: whoever has the same engines
agrees, without memory or exchange, and when engines come and go only their sessions move. Costs are
those of `prefix_cost`. The session's engine is left when another costs less by more than `patience_s`, or,
until costs are seconds, when it costs more than `times` as much; the session comes back when that is over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from random import Random

from routing.cost import PrefixCost, home
from routing.policies import prefix_cost
from routing.policy import Policy, chosen
from routing.types import Choice, EngineLoad, Prompt


@dataclass(frozen=True, slots=True)
class Params:
    """`ValueError` for a patience below 0 or fewer times than 1."""

    patience_s: float = 2.0
    """How many seconds more than the cheapest the session's engine may cost."""
    times: float = 4.0
    """How many times as much it may cost until the engines' speed is learned."""

    def __post_init__(self) -> None:
        if not (isfinite(self.patience_s) and self.patience_s >= 0):
            raise ValueError(f"patience_s must be 0 or more, not {self.patience_s}")
        if not (isfinite(self.times) and self.times >= 1):
            raise ValueError(f"times must be 1 or more, not {self.times}")


class Session:
    def __init__(self, params: Params) -> None:
        weights = prefix_cost.Params()
        self._cost = PrefixCost(weights.later, weights.decode, weights.pressure_s)
        self._patience_s = params.patience_s
        self._times = params.times

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        costs = self._cost.costs(prompt, engines, cached)
        session = prompt.session or prompt.root
        if not session:
            return self._cost.choose(prompt, engines, cached, rng)
        engine = home(session, engines)
        mine, least = costs[engine.id], min(costs.values())
        learned = all(engine.rates is not None for engine in engines)
        if mine <= (least + self._patience_s if learned else least * self._times):
            return chosen(engine, prompt, cached, "its session's", mine)
        return self._cost.choose(prompt, engines, cached, rng)

    def costs(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int]
    ) -> Mapping[int, float]:
        return self._cost.costs(prompt, engines, cached)


def build(params: Params) -> Policy:
    return Session(params)
