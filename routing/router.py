"""How a request gets its engine: look up who holds its beginning, choose, remember. One synchronous call."""

from collections.abc import Mapping, Sequence
from random import Random

from msgspec.structs import replace

from routing.index import PrefixIndex
from routing.policy import Policy, Residency
from routing.types import Choice, EngineLoad, Prompt

# So few engines are looked at one by one.
_ALL_BELOW = 16
_LOTS = 8


class Router:
    """One fleet's policy and memory. Nothing awaits between looking and remembering.

    The prompt is recorded at choice, not at the first token, so that a burst of siblings already sees it; the
    caller charges the load at the same moment, for the same reason.
    """

    def __init__(
        self, policy: Policy, index: PrefixIndex, rng: Random, residency: Residency | None = None
    ) -> None:
        """`residency`: what is known of some engines; the index speaks for the others."""
        self._policy = policy
        self._residency = residency
        self._index = index
        self._rng = rng
        self._idle_are_alike = bool(getattr(policy, "idle_are_alike", False))

    def choose(
        self,
        prompt: Prompt,
        engines: Sequence[EngineLoad],
        at_s: float,
        crowd: "Crowd | None" = None,
        explain: bool = False,
    ) -> Choice:
        """One of `engines`; `ValueError` when there are none. `at_s` is the caller's monotonic clock.

        `crowd`, where the caller keeps it, is about the same engines. `explain`: the choice is to carry every
        engine's cost, which takes as long again.
        """
        if not engines:
            raise ValueError("no engine to choose from")
        index = self._index
        cached = index.match(prompt.chain, prompt.ends)
        if self._residency is not None:
            cached.update(self._residency.held(prompt))
        offered = engines
        if crowd is not None and self._idle_are_alike and len(engines) > _ALL_BELOW:
            offered = self._few(engines, crowd, cached)
        choice = self._policy.choose(prompt, offered, cached, self._rng)
        if explain:
            choice = self._explained(choice, prompt, engines, offered, cached)
        index.record(choice.engine, prompt.chain, prompt.ends, at_s)
        return choice

    def _explained(
        self,
        choice: Choice,
        prompt: Prompt,
        engines: Sequence[EngineLoad],
        offered: Sequence[EngineLoad],
        cached: Mapping[int, int],
    ) -> Choice:
        """The choice with every engine's cost, and with the chance of its being drawn out of all engines."""
        propensity = choice.propensity
        if len(offered) < len(engines) and choice.engine == offered[0].id:
            propensity /= len(engines) - len(offered) + 1  # that one stood for all that are like it
        costs = getattr(self._policy, "costs", None)
        table = costs(prompt, engines, cached) if costs is not None else None
        return replace(choice, propensity=propensity, costs=table)

    def engine_lost(self, engine_id: int) -> None:
        """The engine restarted or left: what it held is gone."""
        self._index.forget(engine_id)

    def _few(
        self, engines: Sequence[EngineLoad], crowd: "Crowd", cached: Mapping[int, int]
    ) -> Sequence[EngineLoad]:
        """The engines that differ: the busy ones, those that hold something, one of the others by lot.

        What a choice costs then does not grow with the engines that have nothing to do.
        """
        busy, by_id = crowd.busy, crowd.by_id
        for _ in range(_LOTS):
            lot = engines[int(self._rng.random() * len(engines))]
            if lot.id not in busy and lot.id not in cached:
                break
        else:
            return engines  # nearly all are busy
        few = [lot]
        few += [by_id[id] for id in busy if id in by_id]
        few += [by_id[id] for id in cached if id in by_id and id not in busy]
        return few


class Crowd:
    """Engines by id, and which of them have any load."""

    __slots__ = ("busy", "by_id")

    def __init__(self, by_id: dict[int, EngineLoad], busy: set[int]) -> None:
        self.by_id = by_id
        self.busy = busy
