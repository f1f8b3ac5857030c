"""Choosing who continues a prompt that another engine computes: its KV comes along, wherever it goes."""

from collections.abc import Mapping, Sequence
from random import Random

from routing.policy import InFlight, Policy, watch
from routing.types import Choice, EngineLoad, Prompt


class Handed:
    """A policy, asked as if every engine held all of the prompt: none has to compute it, so load decides."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.idle_are_alike = bool(getattr(policy, "idle_are_alike", False))

    def watch(self, flying: InFlight) -> None:
        watch(self._policy, flying)

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        return self._policy.choose(prompt, engines, self._held(prompt, engines), rng)

    def costs(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int]
    ) -> Mapping[int, float]:
        """The policy's own figures; empty where it has none."""
        costs = getattr(self._policy, "costs", None)
        if costs is None:
            return {}
        figures: Mapping[int, float] = costs(prompt, engines, self._held(prompt, engines))
        return figures

    def _held(self, prompt: Prompt, engines: Sequence[EngineLoad]) -> dict[int, int]:
        total = prompt.ends[-1] if prompt.ends else 0
        return dict.fromkeys((engine.id for engine in engines), total)
