"""Each engine in turn, whatever its load and whatever it holds.

The turn is remembered as the last engine's id, so that engines may come and go between two requests. The
first one is drawn at random: workers that start together do not march in step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from routing.policy import Policy, chosen
from routing.types import Choice, EngineLoad, Prompt


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


class RoundRobin:
    def __init__(self) -> None:
        self._last: int | None = None

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        last, equals = self._last, 1
        if last is None:
            engine, equals = rng.choice(sorted(engines, key=_id)), len(engines)
        else:
            later = [engine for engine in engines if engine.id > last]
            engine = min(later or engines, key=_id)
        self._last = engine.id
        return chosen(engine, prompt, cached, "its turn", equals=equals)


def _id(engine: EngineLoad) -> int:
    return engine.id


def build(_params: Params) -> Policy:
    return RoundRobin()
