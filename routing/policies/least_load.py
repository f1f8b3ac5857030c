"""The engine with the fewest requests in flight; then the fewest prompt bytes waiting; then at random."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from routing.policy import Policy, chosen
from routing.types import Choice, EngineLoad, Prompt


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


class LeastLoad:
    idle_are_alike = True

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        least = min((engine.inflight, engine.pending_bytes) for engine in engines)
        equal = [engine for engine in engines if (engine.inflight, engine.pending_bytes) == least]
        engine = equal[0] if len(equal) == 1 else rng.choice(equal)
        return chosen(engine, prompt, cached, "fewest in flight", equals=len(equal))


def build(_params: Params) -> Policy:
    return LeastLoad()
