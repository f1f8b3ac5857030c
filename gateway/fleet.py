"""Production's engines as one worker sees them: which are up, how loaded, and whose a model is."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from random import random
from typing import TYPE_CHECKING, Final

from gateway import outlier, rates
from gateway.loads import LoadRow, LoadTable
from gateway.outlier import Reason, Standing, State
from gateway.spec import EngineSpec, FleetSpec, HealthSpec
from gateway.usage import Usage
from routing.rates import Learner, Sample
from routing.router import Crowd, Router
from routing.types import Choice, EngineLoad, Prompt

if TYPE_CHECKING:
    from gateway.bridge.lessons import Lessons
    from gateway.split.roles import Roles

# What is learned from in a second, at most.
_SAMPLES: Final = 256
_BYTES_PER_TOKEN: Final = 4.0  # until it is learned
# Several workers: what the others do is looked up at most this often; what this one does is seen at once.
_LOOKED_S: Final = 0.001


class Engine:
    """What is known of one engine now.  `load` is that of all workers; `inflight` is this worker's own."""

    __slots__ = (
        "_up",
        "answers",
        "capacity_bytes",
        "errors",
        "fleet",
        "heard_ns",
        "id",
        "inflight",
        "kind",
        "learner",
        "life_ns",
        "load",
        "models",
        "name",
        "on_trial",
        "samples",
        "spec",
        "standing",
        "tells_load",
        "token_ns",
        "used_bytes",
    )

    def __init__(self, spec: EngineSpec, *, up: bool = True) -> None:
        """`up`: used before a probe or a request has said anything, as when a restarted worker must serve."""
        self.spec = spec
        self.id = spec.id
        self.name = spec.url
        self.kind = spec.kind
        self._up = up
        self.on_trial = False  # may be chosen once; say so with `tried`
        self.standing = Standing(State.GOOD if up else State.NEW)
        self.fleet: Fleet | None = None
        self.models: tuple[str, ...] = ()
        self.inflight = 0
        self.capacity_bytes = 0  # of its KV cache, as far as it is known
        self.used_bytes = 0  # of prompts in flight, by this worker alone
        self.load = EngineLoad(spec.id, 0, 0)
        self.tells_load = False  # unasked, so that its metrics need not be read
        self.learner = Learner()
        self.samples: list[Sample] = []  # since the last second
        self.heard_ns = 0  # when the last answer began, to a request or a probe
        self.token_ns = 0  # when the last first token came; whoever sees it writes it here
        self.life_ns = 0  # when an answer that runs was read from last, as the last sweep saw it
        self.answers = 0
        self.errors = 0

    @property
    def up(self) -> bool:
        """May be chosen; `gateway.outlier` decides."""
        return self._up

    @up.setter
    def up(self, up: bool) -> None:
        if up != self._up:
            self._up = up
            if self.fleet is not None:
                self.fleet.changed()

    @property
    def is_there(self) -> bool:
        """Somebody answers at its address, well or badly.  False as well of one that was never heard."""
        return self.standing.state not in (State.GONE, State.NEW)

    @property
    def is_good(self) -> bool:
        return self.standing.state is State.GOOD

    @property
    def error(self) -> str | None:
        """What is held against it, in words."""
        standing = self.standing
        return standing.why if standing.misses or standing.state is not State.GOOD else None

    def answered(self, at_ns: int) -> None:
        """The head of an answer came, of whatever status: slow is not dead."""
        self.heard_ns = at_ns
        self.answers += 1

    def erred(self, why: str, at_ns: int) -> None:
        """That answer was a 5xx, or a stream that began with an error of that kind."""
        if outlier.erred(self, self._peers, why, self._rules, at_ns, random):
            self._settle()

    def timed_out(self, sent_ns: int, at_ns: int) -> None:
        """A request sent at `sent_ns` was given up without a first token."""
        if outlier.timed_out(self, self._peers, sent_ns, self.life_ns, self._rules, at_ns, random):
            self._settle()

    def tried(self) -> None:
        """It was chosen while `on_trial`."""
        outlier.tried(self)
        self._settle()

    def failed(self, why: str, reason: Reason = Reason.CONNECT) -> None:
        """A request or a probe found nobody there."""
        if outlier.missed(self, why, reason, self._rules):
            self._settle()
        if self.fleet is not None and not self.is_there:
            self.fleet.router.engine_lost(self.id)  # what it held is gone, and what it was asked in vain

    def probed(self, at_ns: int) -> None:
        """A probe succeeded: an engine that was gone is used again from now on."""
        self.heard_ns = at_ns
        if outlier.found(self, at_ns):
            self._settle()

    def streamed(self, choice: Choice, sent_ns: int, token_ns: int, last_ns: int, told: Usage | None) -> None:
        """A stream of its ended well: learn from its instants.  `told` is what it said of its tokens."""
        if len(self.samples) >= _SAMPLES:
            return
        prompt_bytes = choice.cached_bytes + choice.uncached_bytes
        # What it was alone with, and what it is alone with now: about the batch that it decoded in.
        batch = (choice.inflight + self.load.inflight) / 2.0 + 1.0
        self.samples.append(
            Sample(
                token_ns / 1e9,
                (token_ns - sent_ns) / 1e9,
                (last_ns - token_ns) / 1e9,
                prompt_bytes,
                choice.uncached_bytes,
                choice.pending_bytes,
                batch,
                None if told is None else told.prompt_tokens,
                None if told is None else told.cached_tokens,
                None if told is None else told.completion_tokens,
            )
        )

    def size_memory(self) -> None:
        """Let what is remembered of it be as large as its KV cache, where that is known."""
        load, fleet = self.load, self.fleet
        if load.kv_tokens is None or fleet is None:
            return
        per_token = _BYTES_PER_TOKEN if load.rates is None else load.rates.bytes_per_token
        capacity_bytes = int(load.kv_tokens * per_token)
        # Not anew with every sample: less room forgets, and more does not bring it back.
        if abs(capacity_bytes - self.capacity_bytes) > 0.05 * self.capacity_bytes:
            self.capacity_bytes = capacity_bytes
            fleet.router.holds(self.id, capacity_bytes)

    @property
    def _peers(self) -> Sequence["Engine"]:
        return self.fleet.engines if self.fleet is not None else (self,)

    @property
    def _rules(self) -> HealthSpec:
        return self.fleet.spec.health if self.fleet is not None else HealthSpec()

    def _settle(self) -> None:
        if self.fleet is not None:  # one that was taken out stays out
            outlier.settle(self.fleet.engines)

    def is_now(self, spec: EngineSpec) -> None:
        """The same engine under a new config: what is known of it stays, its key or paths may be others."""
        if spec.kind != self.spec.kind and spec.kind != "auto":
            self.kind = spec.kind
        self.spec = spec

    def leave(self) -> None:
        """It was taken out: no request is sent to it any more; nothing probes it back."""
        self.up = False  # while its fleet is still told
        self.fleet = None


@dataclass(slots=True)
class Seconds:
    """What was timed since the last export, in seconds."""

    ttft: list[float] = field(default_factory=list)
    e2e: list[float] = field(default_factory=list)
    overhead: list[float] = field(default_factory=list)


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
        self.looked_s = -1.0  # when other workers' loads were last looked at
        self.split: Roles | None = None  # where engines have roles
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

    def has_other(self, without: Collection[int]) -> bool:
        """Whether a request may yet be served by engines that are not among `without`."""
        if self.split is not None:
            return self.split.has_other(without)
        return any(engine.up and engine.id not in without for engine in self._engines)

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
        self, fleet: Fleet, prompt: Prompt, at_s: float, without: Collection[int]
    ) -> tuple[Engine, Choice] | None:
        """Choose an engine and charge it; None when no engine is left.  Nothing awaits between the two."""
        crowd = fleet.ready()
        if self._shared and not 0.0 <= at_s - fleet.looked_s < _LOOKED_S:
            self._look(fleet, crowd, at_s)
        loads = fleet.loads
        explain = self.explained > 0.0 and random() < self.explained
        if without:
            loads = [load for load in loads if load.id not in without]
            if not loads:
                return None
            choice = fleet.router.choose(prompt, loads, at_s, explain=explain)
        elif not loads:
            return None
        else:
            choice = fleet.router.choose(prompt, loads, at_s, crowd, explain)
        engine = self._by_engine[choice.engine]
        if engine.on_trial:
            engine.tried()
        self._charge(engine, choice.uncached_bytes, fleet.router)
        return engine, choice

    def _look(self, fleet: Fleet, crowd: Crowd, at_s: float) -> None:
        """See what all workers together have at the engines."""
        fleet.looked_s = at_s
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
            engine.id, "again, on a fresh connection", 0, total, load.inflight, load.pending_bytes
        )
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
