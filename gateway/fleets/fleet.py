"""The fleets of one worker: their engines, who may be chosen, how loaded they are, and whose a model is."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from random import random
from typing import TYPE_CHECKING, Final

from gateway.durations import E2E_S, OVERHEAD_S, TTFT_S, Durations
from gateway.fleets import outlier, rates
from gateway.fleets.engine import Engine as Engine
from gateway.fleets.loads import LoadRow, LoadTable
from gateway.fleets.outlier import State
from gateway.spec import FleetSpec
from gateway.tallies import Answered, Tallies
from routing.router import Crowd, Router
from routing.shadow import Shadow
from routing.types import Choice, EngineLoad, Prompt

if TYPE_CHECKING:
    from gateway.bridge.lessons import Lessons
    from gateway.split.roles import Roles

# Several workers: what the others do is looked up at most this often; what this one does is seen at once.
_LOOKED_S: Final = 0.001


@dataclass(slots=True)
class Seconds:
    """What was timed since the last export."""

    ttft: Durations = field(default_factory=lambda: Durations(TTFT_S))
    e2e: Durations = field(default_factory=lambda: Durations(E2E_S))
    overhead: Durations = field(default_factory=lambda: Durations(OVERHEAD_S))


class Fleet:
    """The engines that serve one model, and the router that chooses among them."""

    def __init__(self, spec: FleetSpec, engines: Sequence[Engine], router: Router) -> None:
        self.spec = spec
        self.name = spec.model or "default"
        self._engines = tuple(engines)
        self._ready: Crowd | None = None
        self.loads: list[EngineLoad] = []  # those of `ready`
        self.router = router
        self.seconds = Seconds()
        self.ttfts_s: list[float] | None = None  # the last second's, where somebody looks at each
        self._answered: Answered | None = None
        self.busy_ns = 0  # how long its requests that have ended were in flight, together
        self.looked_s = -1.0  # when other workers' loads were last looked at
        self.split: Roles | None = None  # where engines have roles
        self.shadow: Shadow | None = None  # policies that are asked, and not obeyed
        self.lessons: Lessons | None = None  # where it is learned what engines hold

    @property
    def engines(self) -> tuple[Engine, ...]:
        return self._engines

    @engines.setter
    def engines(self, engines: Sequence[Engine]) -> None:
        self._engines = tuple(engines)
        self.changed()

    def changed(self) -> None:
        """Its engines are others, or others of them may be chosen."""
        self._ready = None
        if self.split is not None:
            self.split.changed()

    def ready(self) -> Crowd:
        """The engines that may be chosen now."""
        ready = self._ready
        if ready is None:
            loads = {one.id: one.load for one in self._engines if one.up}
            busy = {id for id, load in loads.items() if load.inflight > 0}
            ready = self._ready = Crowd(loads, busy)
            self.loads = list(loads.values())
        return ready

    def answered(self, tallies: Tallies) -> Answered:
        """Where its good answers are counted, among the worker's other numbers."""
        answered = self._answered
        if answered is None:
            answered = self._answered = Answered(tallies, self.name)
        return answered

    def has_other(self, without: Collection[int], *, left_out: bool = False) -> bool:
        """Whether a request may yet be served by engines that are not among `without`.

        `left_out`: by those, too, that are not to be chosen as long as others are.
        """
        if self.split is not None:
            return self.split.has_other(without)
        if any(engine.up and engine.id not in without for engine in self._engines):
            return True
        return left_out and bool(self.left_out(without))

    def left_out(self, without: Collection[int]) -> list[Engine]:
        """Engines that are not to be chosen, and better than none: those that are there, else those gone.

        What was thought of them is as old as the last look: one that is taken to be gone may be back.
        """
        out = [
            one for one in self._engines
            if not one.up and one.id not in without and one.standing.state is not State.NEW
        ]  # fmt: skip
        return [one for one in out if one.is_there] or out

    @property
    def is_up(self) -> bool:
        """Somebody is there to answer.  Engines may be `up`, that is tried, although nobody is."""
        return any(engine.is_there for engine in self.engines)

    def look(self, now_ns: int) -> None:
        """Judge the engines by what came and by the time; about once a second."""
        for engine in self.engines:
            engine.fleet = self
        outlier.look(self.engines, self.spec.health, now_ns)
        outlier.settle(self.engines)

    @property
    def models(self) -> tuple[str, ...]:
        """The names a client may use; where the config gives none, those the engines tell."""
        if self.spec.names:
            return self.spec.names
        return tuple(dict.fromkeys(model for engine in self.engines for model in engine.models))


class Fleets:
    """All fleets of a worker, and the loads of their engines."""

    def __init__(self, fleets: Iterable[Fleet], loads: LoadTable, row: LoadRow) -> None:
        self.fleets = tuple(fleets)
        for fleet in self.fleets:
            for engine in fleet.engines:
                engine.fleet = fleet
        self._loads = loads
        self._row = row
        self.explained = 0.0  # of the choices, this share carries every engine's cost
        self._shared = loads.workers > 1  # one worker alone knows every load without looking
        self._by_name = {name: fleet for fleet in self.fleets for name in fleet.spec.names}
        self._by_engine = {engine.id: engine for fleet in self.fleets for engine in fleet.engines}
        marked = [fleet for fleet in self.fleets if fleet.spec.default or fleet.spec.model is None]
        self.default = marked[0] if marked else (self.fleets[0] if len(self.fleets) == 1 else None)

    def named(self, model: str | None) -> Fleet | None:
        """The fleet a model's name means.  A name nobody listed goes to a fleet that lists none, if any."""
        if model is None:
            return self.default
        fleet = self._by_name.get(model)
        if fleet is None and self.default is not None and not self.default.spec.names:
            return self.default  # its names are the engines' to judge
        return fleet

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(model for fleet in self.fleets for model in fleet.models))

    def choose(
        self,
        fleet: Fleet,
        prompt: Prompt,
        at_s: float,
        without: Collection[int],
        left_out: bool = False,
    ) -> tuple[Engine, Choice] | None:
        """Choose an engine and charge it; None when no engine is left.  Nothing awaits between the two.

        `left_out`: one of those that are not to be chosen as long as others are.
        """
        crowd = fleet.ready()
        if self._shared and not 0.0 <= at_s - fleet.looked_s < _LOOKED_S:
            self._look(fleet, crowd, at_s)
        loads = fleet.loads
        explain = self.explained > 0.0 and random() < self.explained
        shadow = fleet.shadow
        if shadow is not None and random() >= fleet.spec.score_share:
            shadow = None
        if without or left_out:
            if left_out:
                loads = [engine.load for engine in fleet.left_out(without)]
            else:
                loads = [load for load in loads if load.id not in without]
            if not loads:
                return None
            choice = fleet.router.choose(prompt, loads, at_s, explain=explain, shadow=shadow)
        elif not loads:
            return None
        else:
            choice = fleet.router.choose(prompt, loads, at_s, crowd, explain, shadow)
        engine = self._by_engine[choice.engine]
        if engine.on_trial:
            engine.tried()
        self._charge(engine, choice.uncached_bytes, fleet.router)
        engine.asked(prompt)
        if self._shared:
            self._row.choices.sent(engine.id, prompt.chain, prompt.ends)
        return engine, choice

    def _look(self, fleet: Fleet, crowd: Crowd, at_s: float) -> None:
        """See what all workers together have at the engines, and what the others sent where."""
        fleet.looked_s = at_s
        for id, links, ends in self._row.choices.news():
            engine = self._by_engine.get(id)
            if engine is not None and engine.fleet is not None:
                engine.fleet.router.heard(id, links, ends, at_s)
        loads, busy = fleet.loads, crowd.busy
        if not loads:
            return
        ids = [load.id for load in loads]
        start = min(ids)
        totals = self._loads.span(start, max(ids) + 1)
        for load in loads:
            load.inflight, load.pending_bytes, load.awaiting, load.context_bytes = totals[load.id - start]
            if load.inflight:
                busy.add(load.id)
            else:
                busy.discard(load.id)

    def learn(self, now_s: float) -> None:
        """Set the rates by which engines are chosen to what all workers have learned; about once a second."""
        for fleet in self.fleets:
            for engines in (fleet.engines,) if fleet.split is None else fleet.split.kinds:
                rates.learn(engines, self._loads.rates, self._row.worker, now_s)
            for engine in fleet.engines:
                engine.size_memory()

    def charge(self, engine: Engine, prompt: Prompt, at_s: float) -> Choice:
        """Charge an engine that was chosen before; nothing of the prompt counts as cached."""
        total = prompt.ends[-1] if prompt.ends else 0
        load = engine.load
        choice = Choice(
            engine.id, "again, on a fresh connection", 0, total, load.inflight, load.pending_bytes,
            costs={} if random() < self.explained else None,
        )  # fmt: skip
        router = None if engine.fleet is None else engine.fleet.router
        if router is not None:
            router.again(engine.id, prompt, at_s)
        self._charge(engine, total, router)
        return choice

    def _charge(self, engine: Engine, pending_bytes: int, router: Router | None) -> None:
        engine.inflight += 1
        load = engine.load
        awaiting = 1 if pending_bytes else 0
        load.inflight += 1
        load.pending_bytes += pending_bytes
        load.awaiting += awaiting
        context_bytes = 0
        if router is not None:
            used_bytes = router.used_bytes(engine.id)
            context_bytes = used_bytes - engine.used_bytes
            engine.used_bytes = used_bytes
            load.context_bytes += context_bytes
        fleet = engine.fleet
        if fleet is not None:
            fleet.ready().busy.add(engine.id)
        if self._shared:
            self._row.add(engine.id, 1, pending_bytes, awaiting, context_bytes)

    def prefilled(self, engine: Engine, pending_bytes: int) -> None:
        """The first token came: the prompt no longer waits."""
        if not pending_bytes:
            return
        load = engine.load
        load.pending_bytes -= pending_bytes
        load.awaiting -= 1
        if self._shared:
            self._row.add(engine.id, 0, -pending_bytes, -1)

    def released(
        self, engine: Engine, prompt: Prompt | None, pending_bytes: int, *, answered: bool = True
    ) -> None:
        """The attempt ended; `pending_bytes` is what was not released at the first token.

        `answered`: a token came.  Otherwise what the engine was to hold of the prompt it does not.
        """
        engine.inflight -= 1
        load = engine.load
        awaiting = 1 if pending_bytes else 0
        load.inflight -= 1
        load.pending_bytes -= pending_bytes
        load.awaiting -= awaiting
        context_bytes = 0
        fleet = engine.fleet
        if fleet is not None:
            router = fleet.router
            if prompt is not None:
                if answered:
                    router.ended(engine.id, prompt)
                else:
                    router.refused(engine.id, prompt)
                    if self._shared:
                        self._row.choices.refused(engine.id, prompt.chain)
            used_bytes = router.used_bytes(engine.id)
            context_bytes = used_bytes - engine.used_bytes
            engine.used_bytes = used_bytes
            load.context_bytes += context_bytes
            if load.inflight <= 0:
                fleet.ready().busy.discard(engine.id)
        elif not engine.inflight:  # it was taken out, and the memory of it
            context_bytes, engine.used_bytes = -engine.used_bytes, 0
        if self._shared:
            self._row.add(engine.id, -1, -pending_bytes, -awaiting, context_bytes)
