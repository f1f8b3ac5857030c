"""How a request gets its engine: look up who holds its beginning, choose, remember. One synchronous call."""

from collections.abc import Sequence
from random import Random

from routing.index import PrefixIndex
from routing.policy import Policy
from routing.types import Choice, EngineLoad, Prompt


class Router:
    """One fleet's policy and memory. Nothing awaits between looking and remembering.

    The prompt is recorded at choice, not at the first token, so that a burst of siblings already sees it; the
    caller charges the load at the same moment, for the same reason.
    """

    def __init__(self, policy: Policy, index: PrefixIndex, rng: Random) -> None:
        self._policy = policy
        self._index = index
        self._rng = rng

    def choose(self, prompt: Prompt, engines: Sequence[EngineLoad], at_s: float) -> Choice:
        """One of `engines`; `ValueError` when there are none. `at_s` is the caller's monotonic clock."""
        if not engines:
            raise ValueError("no engine to choose from")
        index = self._index
        cached = index.match(prompt.chain, prompt.ends)
        choice = self._policy.choose(prompt, engines, cached, self._rng)
        index.record(choice.engine, prompt.chain, prompt.ends, at_s)
        return choice

    def engine_lost(self, engine_id: int) -> None:
        """The engine restarted or left: what it held is gone."""
        self._index.forget(engine_id)
