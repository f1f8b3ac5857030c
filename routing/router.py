"""How a request gets its engine: look up who holds its beginning, choose, remember. One synchronous call."""

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Final

from routing.index import PrefixIndex
from routing.policy import NO_LIMIT_BYTES, Lasting, Policy, Residency, watch
from routing.shadow import Shadow
from routing.types import Choice, EngineLoad, Prompt

PREDICTED_S: Final = 5.0
"""So long a choice counts as what the engine will hold, beside what it is known to hold."""
# So few engines are looked at one by one.
_ALL_BELOW: Final = 16
_LOTS: Final = 8


class Router:
    """One fleet's policy and memory. Nothing awaits between looking and remembering.

    The prompt is recorded at choice, not at the first token, so that a burst of siblings already sees it; the
    caller charges the load at the same moment, for the same reason.
    """

    def __init__(self, policy: Policy, index: PrefixIndex, rng: Random) -> None:
        self._policy = policy
        self._residency: Residency | None = None
        self._predicted: PrefixIndex | None = None
        self._index = index
        self._rng = rng
        self._idle_are_alike = bool(getattr(policy, "idle_are_alike", False))
        watch(policy, index)

    def choose(
        self,
        prompt: Prompt,
        engines: Sequence[EngineLoad],
        at_s: float,
        crowd: "Crowd | None" = None,
        explain: bool = False,
        shadow: Shadow | None = None,
    ) -> Choice:
        """One of `engines`; `ValueError` when there are none. `at_s` is the caller's monotonic clock.

        `crowd`, where the caller keeps it, is about the same engines. `explain`: the choice is to carry every
        engine's cost, which takes as long again. `shadow`: its policies are to be asked, too.
        """
        if not engines:
            raise ValueError("no engine to choose from")
        index = self._index
        predicted = self._predicted
        residency = self._residency
        if prompt.open_at >= 0:
            self.rename(prompt)
        chain, ends = prompt.chain, prompt.ends
        credited: dict[int, int] | None = None
        if predicted is None or residency is None:
            cached = index.match(chain, ends)
        else:
            known = residency.held(prompt, self._lasting(prompt, engines, crowd, residency))
            # What was sent there beyond what is known may be held: no claim, but it breaks ties, by one byte.
            cached = index.beyond(chain, ends, known)
            for id, soon in predicted.match(chain, ends).items():
                if soon > known.get(id, soon):
                    cached[id] = soon
            below = residency.below()
            if below:
                credited = self._credit(cached, known, below, engines)
        offered = engines
        if crowd is not None and self._idle_are_alike and len(engines) > _ALL_BELOW:
            offered = self._few(engines, crowd, cached)
        choice = self._policy.choose(prompt, offered, cached, self._rng)
        if credited and choice.engine in credited:
            choice.below, choice.credited_bytes = below[choice.engine], credited[choice.engine]
        if explain or shadow is not None:
            self._explain(choice, prompt, engines, offered, cached, explain, shadow)
        index.record(choice.engine, chain, ends, at_s)
        if predicted is not None:
            predicted.record(choice.engine, chain, ends, at_s, is_ours=False)
        return choice

    def rename(self, prompt: Prompt) -> None:
        """Name the prompt as what was sent is remembered: whoever looks into the memory does so first."""
        if self._residency is not None:
            self._residency.rename(prompt)

    def know(self, residency: Residency | None) -> None:
        """What some engines are known to hold, from now on; the index speaks for the others. None: for all.

        Beside what is known, what was sent within `PREDICTED_S` and not refused counts as held, so that
        siblings of a request whose KV events have not come yet go with it.
        """
        self._residency = residency
        self._predicted = None if residency is None else PrefixIndex(max_age_s=PREDICTED_S)

    def answered(self, engine_id: int, prompt: Prompt) -> None:
        """The first token of a request came: the engine holds its prompt."""
        self._index.confirm(engine_id, prompt.chain)

    def ended(self, engine_id: int, prompt: Prompt) -> None:
        """A request is over that was answered. This or `refused` is to be said once of each choice."""
        self._index.release(engine_id, prompt.chain)

    def told(self, engine_id: int, prompt: Prompt, answer_bytes: int) -> None:
        """So long is the answer to a prompt, or will be: the engine keeps it behind the prompt."""
        self._index.answer(engine_id, prompt.chain, answer_bytes)

    def refused(self, engine_id: int, prompt: Prompt) -> None:
        """A request ended without a token: unless others were sent the same, its prompt is not held there."""
        self._index.release(engine_id, prompt.chain)
        self._index.retract(engine_id, prompt.chain)
        if self._predicted is not None:
            self._predicted.retract(engine_id, prompt.chain)

    def again(self, engine_id: int, prompt: Prompt, at_s: float) -> None:
        """A request is sent once more to an engine that was chosen before."""
        self._index.record(engine_id, prompt.chain, prompt.ends, at_s)

    def heard(self, engine_id: int, links: Sequence[int], ends: Sequence[int], at_s: float) -> None:
        """Another worker sent the engine the prompt of these; without `ends`: the one it sent was refused."""
        for index in (self._index, self._predicted):
            if index is not None:
                if ends:
                    index.record(engine_id, links, ends, at_s, is_ours=False)
                else:
                    index.retract(engine_id, links)

    def used_bytes(self, engine_id: int) -> int:
        """Prompt bytes of the requests in flight there, as far as they were chosen here; shared ones once."""
        return self._index.used_bytes(engine_id)

    def holds(self, engine_id: int, capacity_bytes: int) -> None:
        """How many bytes of prompts fit into the engine's KV cache, as far as its size is known."""
        self._index.set_capacity(engine_id, capacity_bytes)

    def _explain(
        self,
        choice: Choice,
        prompt: Prompt,
        engines: Sequence[EngineLoad],
        offered: Sequence[EngineLoad],
        cached: Mapping[int, int],
        explain: bool,
        shadow: Shadow | None,
    ) -> None:
        """Add to the choice what is asked for, and the chance of its being drawn out of all engines."""
        if len(offered) < len(engines) and choice.engine == offered[0].id:
            choice.propensity /= len(engines) - len(offered) + 1  # that one stood for all that are like it
        if explain:
            costs = getattr(self._policy, "costs", None)
            choice.costs = costs(prompt, engines, cached) if costs is not None else {}
        if shadow is not None:
            choice.agreeing = shadow.ask(choice, prompt, engines, cached)

    def engine_lost(self, engine_id: int) -> None:
        """The engine restarted or left: what it held is gone."""
        self._index.forget(engine_id)
        if self._predicted is not None:
            self._predicted.forget(engine_id)

    def _lasting(
        self,
        prompt: Prompt,
        engines: Sequence[EngineLoad],
        crowd: "Crowd | None",
        residency: Residency,
    ) -> dict[int, Lasting]:
        """Where prompts wait before this one, and computing them takes room that something else has."""
        index = self._index
        found: dict[int, Lasting] = {}
        busy: Iterable[EngineLoad] = engines
        if crowd is not None:
            by_id = crowd.by_id
            busy = [by_id[id] for id in crowd.busy if id in by_id]
        for engine in busy:
            if not engine.awaiting:
                continue
            id = engine.id
            index.set_share(id, residency.share(id))
            stays = index.held(id, prompt.chain, prompt.ends) if index.is_full(id) else NO_LIMIT_BYTES
            coming = index.in_use(id, prompt.chain, prompt.ends) if stays else 0
            found[id] = Lasting(stays, engine.pending_bytes, coming)
        return found

    @staticmethod
    def _credit(
        cached: dict[int, int],
        known: Mapping[int, int],
        below: Mapping[int, tuple[int, int]],
        engines: Sequence[EngineLoad],
    ) -> dict[int, int]:
        """Count what can be loaded from lower tiers by as much as loading was seen to save of computing.

        Bytes that count so, by engine; without those that were sent more just now, of which that speaks.
        """
        credited: dict[int, int] = {}
        for engine in engines:
            id = engine.id
            if id not in below or id not in known:
                continue
            host, store = below[id]
            rates = engine.rates
            credit = 0 if rates is None else int(rates.host_credit * host + rates.store_credit * store)
            # What is known ends with a block, what was sent with a message: a little more is no more.
            if cached[id] > known[id] + max(1, credit):
                continue
            credited[id] = credit
            # One byte where nothing is saved: it breaks ties, and what comes of it is learned from.
            cached[id] = known[id] + max(1, credit)
        return credited

    def _few(
        self, engines: Sequence[EngineLoad], crowd: "Crowd", cached: dict[int, int]
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
        for id in busy:
            engine = by_id.get(id)
            if engine is not None:
                few.append(engine)
        for id in cached:
            engine = by_id.get(id)
            if engine is not None and id not in busy:
                few.append(engine)
        return few


class Crowd:
    """Engines by id, and which of them have any load."""

    __slots__ = ("busy", "by_id")

    def __init__(self, by_id: dict[int, EngineLoad], busy: set[int]) -> None:
        self.by_id = by_id
        self.busy = busy
