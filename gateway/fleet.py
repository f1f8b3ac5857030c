"""Production's engines as one worker sees them: which are up, how loaded, and whose a model is."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from gateway.loads import LoadRow, LoadTable
from gateway.spec import EngineSpec, FleetSpec
from routing.router import Router
from routing.types import Choice, EngineLoad, Prompt

# Failures in a row after which an engine is left out, until a probe succeeds.
_FAILURES_TO_DOWN = 3


class Engine:
    """What is known of one engine now.  `load` is that of all workers; `inflight` is this worker's own."""

    __slots__ = (
        "error",
        "failures",
        "heard_ns",
        "id",
        "inflight",
        "kind",
        "load",
        "models",
        "name",
        "spec",
        "up",
    )

    def __init__(self, spec: EngineSpec) -> None:
        self.spec = spec
        self.id = spec.id
        self.name = spec.url
        self.kind = spec.kind
        self.up = True  # until a probe or a request says otherwise: a restarted worker must serve at once
        self.failures = 0
        self.error: str | None = None
        self.models: tuple[str, ...] = ()
        self.inflight = 0
        self.load = EngineLoad(spec.id, 0, 0)
        self.heard_ns = 0

    def answered(self, at_ns: int) -> None:
        """A byte of an answer came: slow is not dead."""
        self.heard_ns = at_ns
        self.failures = 0

    def failed(self, why: str) -> None:
        """A request or a probe found nobody there."""
        self.failures += 1
        self.error = why
        if self.failures >= _FAILURES_TO_DOWN:
            self.up = False

    def probed(self, at_ns: int) -> None:
        """A probe succeeded: the engine is used again from now on."""
        self.answered(at_ns)
        self.up = True
        self.error = None


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
        self.engines = tuple(engines)
        self.router = router
        self.seconds = Seconds()

    @property
    def is_up(self) -> bool:
        return any(engine.up for engine in self.engines)

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
        self._loads = loads
        self._row = row
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
        if without:
            loads = [one.load for one in fleet.engines if one.up and one.id not in without]
        else:
            loads = [one.load for one in fleet.engines if one.up]
        if not loads:
            return None
        if self._shared:
            totals = self._loads.totals
            for load in loads:
                load.inflight, load.pending_bytes = totals(load.id)
        choice = fleet.router.choose(prompt, loads, at_s)
        engine = self._by_engine[choice.engine]
        self._charge(engine, choice.uncached_bytes)
        return engine, choice

    def charge(self, engine: Engine, prompt: Prompt) -> Choice:
        """Charge an engine that was chosen before; nothing of the prompt counts as cached."""
        total = prompt.ends[-1] if prompt.ends else 0
        self._charge(engine, total)
        return Choice(engine.id, "again, on a fresh connection", 0, total)

    def _charge(self, engine: Engine, pending_bytes: int) -> None:
        engine.inflight += 1
        load = engine.load
        load.inflight += 1
        load.pending_bytes += pending_bytes
        if self._shared:
            self._row.add(engine.id, 1, pending_bytes)

    def prefilled(self, engine: Engine, pending_bytes: int) -> None:
        """The first token came: the prompt no longer waits."""
        engine.load.pending_bytes -= pending_bytes
        if self._shared:
            self._row.add(engine.id, 0, -pending_bytes)

    def released(self, engine: Engine, pending_bytes: int) -> None:
        """The attempt ended; `pending_bytes` is what was not released at the first token."""
        engine.inflight -= 1
        load = engine.load
        load.inflight -= 1
        load.pending_bytes -= pending_bytes
        if self._shared:
            self._row.add(engine.id, -1, -pending_bytes)
