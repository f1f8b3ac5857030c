"""The less loaded of two engines drawn at random: Mitzenmacher's power of two choices.

As SMG's and sglang-router's `power_of_two.rs` (0.3.2) where engines push no token counts: two different
engines, compared by requests in flight, the first drawn on a tie. It needs to look at two engines only, which
is what it is for where loads are known late; it reads no prompt. A baseline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from routing.policy import Policy, chosen
from routing.types import Choice, EngineLoad, Prompt


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


class PowerOfTwo:
    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        number = len(engines)
        if number == 1:
            return chosen(engines[0], prompt, cached, "the only one")
        first, second = rng.sample(sorted(engines, key=_id), 2)
        engine = first if first.inflight <= second.inflight else second
        choice = chosen(engine, prompt, cached, "fewer in flight of two")
        choice.propensity = _chance(engine, engines)
        return choice


def _chance(engine: EngineLoad, engines: Sequence[EngineLoad]) -> float:
    """The share of all ordered pairs that it wins: both with a busier one, one of two with its equal."""
    busier = sum(1 for other in engines if other.inflight > engine.inflight)
    equals = sum(1 for other in engines if other.inflight == engine.inflight) - 1
    return (2 * busier + equals) / (len(engines) * (len(engines) - 1))


def _id(engine: EngineLoad) -> int:
    return engine.id


def build(_params: Params) -> Policy:
    return PowerOfTwo()
