"""How a request gets its engine: look up who holds its beginning, choose, remember. One synchronous call."""

from collections.abc import Mapping, Sequence
from random import Random

from routing.index import PrefixIndex
from routing.policy import Policy
from routing.types import Choice, EngineLoad, Prompt

# So few engines are looked at one by one.
_ALL_BELOW = 16
_LOTS = 8


class Router:
    """One fleet's policy and memory. Nothing awaits between looking and remembering.

    The prompt is recorded at choice, not at the first token, so that a burst of siblings already sees it; the
    caller charges the load at the same moment, for the same reason.
    """

    def __init__(self, policy: Policy, index: PrefixIndex, rng: Random) -> None:
        self._policy = policy
        self._index = index
        self._rng = rng
        self._idle_are_alike = bool(getattr(policy, "idle_are_alike", False))

    def choose(
        self,
        prompt: Prompt,
        engines: Sequence[EngineLoad],
        at_s: float,
        crowd: "Crowd | None" = None,
    ) -> Choice:
        """One of `engines`; `ValueError` when there are none. `at_s` is the caller's monotonic clock.

        `crowd`, where the caller keeps it, is about the same engines.
        """
        if not engines:
            raise ValueError("no engine to choose from")
        index = self._index
        cached = index.match(prompt.chain, prompt.ends)
        if crowd is not None and self._idle_are_alike and len(engines) > _ALL_BELOW:
            engines = self._few(engines, crowd, cached)
        choice = self._policy.choose(prompt, engines, cached, self._rng)
        index.record(choice.engine, prompt.chain, prompt.ends, at_s)
        return choice

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
