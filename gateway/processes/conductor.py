"""How does a new configuration, or a new set of discovered engines, replace the old one under all processes?

It is checked and composed whole before anything is changed: what is refused leaves nothing behind.  Then each
process is told in the order `rollout` gives.  No method waits; instants are monotonic nanoseconds.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from config.schema import Config
from gateway.discovery import spec as discovery
from gateway.fleets.columns import Columns, NoColumnLeftError
from gateway.kv import spec as kv
from gateway.launch.launched import Launched
from gateway.processes import line, rollout
from gateway.processes.children import Child
from gateway.processes.compose import Told, places
from gateway.processes.deployment import UnusableError
from gateway.processes.fixed import fixed
from gateway.processes.handover import to_json
from gateway.processes.reload import Read
from gateway.processes.rollout import ANALYSIS, LAUNCH, SHADOW, Rollout, Spec

DISCOVERY = "discovery"
EVENTS = "events"
_PATIENCE_NS = 20_000_000_000  # of a step: a shadow process may take 12 s to bring an experiment to its end
_TOKENS = 32


class Staff(Protocol):
    """Who keeps the processes: `supervisor.Supervisor`."""

    def tell(self, name: str, kind: str, body: bytes = b"") -> bool: ...

    def keep(self, child: Child) -> None: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """A configuration that was read, and what its arms' URLs were found to be."""

    config: Config
    kinds: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Means:
    """What the conductor needs done.

    `compose` makes the specs of a configuration with these columns; `children` the processes for specs;
    `prepare` gets ready for a configuration and its specs and raises deployment.UnusableError when that
    fails; `source` is what complaints name as the place of settings.
    """

    compose: Callable[[Plan, Mapping[tuple[str | None, str], int]], Told]
    children: Callable[[Told, Config], list[Child]]
    prepare: Callable[[Config, Told], None]
    source: str


@dataclass(slots=True)
class _Wanted:
    plan: Plan
    asked: tuple[str, ...]


@dataclass(slots=True)
class _Past:
    """What is told to the admin server."""

    generation: int = 1
    reloads: Counter[str] = field(default_factory=Counter)
    error: str | None = None
    answered: list[str] = field(default_factory=list)
    trouble: dict[str, str] = field(default_factory=dict)


class Conductor:
    """One deployment's configuration over time."""

    def __init__(self, plan: Plan, told: Told, columns: Columns, means: Means, log: Any) -> None:
        self._plan = plan
        self._told = told
        self._columns = columns
        self._means = means
        self._log = log
        self._staff: Staff | None = None
        self._took: Callable[[Config], None] = lambda _config: None
        self._past = _Past()
        self._found: dict[str, discovery.Found] = {}
        self._rollout: Rollout | None = None
        self._asked: tuple[str, ...] = ()  # by whom the configuration on its way was asked for
        self._wanted: _Wanted | None = None  # came while another was on its way
        self._moved = False  # engines came or went meanwhile
        self._number = 0
        self._unsent: dict[str, bytes] = {}
        self._draining = False
        self._publishers: dict[str, Any] = {}  # as the process that reads KV events last told
        self._launched = Launched()

    def conduct(self, staff: Staff, took: Callable[[Config], None]) -> None:
        """Tell these processes from now on.  `took(config)`: it is taken, and nobody was told of it yet."""
        self._staff = staff
        self._took = took

    @property
    def config(self) -> Config:
        """The configuration in use, without what was discovered."""
        return self._plan.config

    @property
    def newest(self) -> Config:
        """The configuration in use, or the one that waits for its turn."""
        return self._plan.config if self._wanted is None else self._wanted.plan.config

    # What comes

    def read(self, read: Read[Plan], now_ns: int) -> None:
        """A configuration was read, or could not be."""
        if self._draining:
            return
        if read.config is None:
            self._refuse(read.error or "it cannot be read", read.asked)
        elif found := fixed(self._plan.config, read.config.config, self._means.source):
            self._refuse("\n".join(map(str, found)), read.asked)
        elif self._rollout is not None:
            earlier = self._wanted.asked if self._wanted is not None else ()
            self._wanted = _Wanted(read.config, (*earlier, *read.asked))
        else:
            self._take(read.config, read.asked, now_ns)

    def heard(self, child: str, kind: str, body: bytes, now_ns: int) -> None:
        """A child said something that is for this class."""
        if kind == "applied" and self._rollout is not None:
            self._rollout.answered(child, *line.answer(body))
        elif kind == "found":
            self._discovered(discovery.found_from_json(body), now_ns)
        elif kind == "publishers":
            self._publishers = json.loads(body)
            self._tell_state()
        elif kind == "launched":
            self._fared(body, now_ns)
        elif kind == "turn":
            self._launched.turn(body)
        elif kind == "unreached" and self._staff is not None:
            self._staff.tell(DISCOVERY, "again", body)
        self.look(now_ns)

    def started(self, child: Child) -> None:
        """A process lives: it knows the newest specs, and the analysis not yet the state."""
        self._unsent.pop(child.name, None)
        if child.name == ANALYSIS:
            self._tell_state()
        elif child.name == SHADOW:
            self._launched.forgotten()
            self._tell_ready()
        elif child.name == LAUNCH:
            self._launched.ended()
            self._tell_ready()

    def died(self, child: Child, now_ns: int) -> None:
        """A process is gone; it is started again with the newest specs."""
        self._unsent.pop(child.name, None)
        if child.name == EVENTS:
            self._publishers = {}
            self._tell_state()
        elif child.name == LAUNCH:
            self._launched.lost()
            self._tell_ready()
            self._tell_state()
        if self._rollout is not None:
            self._rollout.lost(child.name)
            self.look(now_ns)

    def drain(self) -> None:
        """The end was asked for: not ready from now on, and nothing changes any more."""
        self._draining = True
        self._tell_state()

    def look(self, now_ns: int) -> None:
        """Go on with what is on its way; call it now and then."""
        if self._draining or self._staff is None:
            return
        self._tell_ready()
        for name, body in list(self._unsent.items()):
            if self._staff.tell(name, "spec", body):
                del self._unsent[name]
        while self._rollout is not None:
            step = self._rollout.due(now_ns)
            if step is None:
                if self._rollout.done:
                    self._arrived(self._rollout, now_ns)
                    continue
                return
            for child, body in step.items():
                if not self._staff.tell(child, "spec", body):
                    self._rollout.lost(child)  # it is dead and will begin with this, or does not read
                    self._unsent[child] = body

    # How it is applied

    def _take(self, plan: Plan, asked: tuple[str, ...], now_ns: int) -> None:
        if plan.config == self._plan.config and plan.kinds == self._plan.kinds:
            self._past.reloads["unchanged"] += 1
            self._past.error = None
            self._log.info("configuration read again: nothing has changed", asked_by=asked)
            self._answer(asked)
            return
        try:
            told = self._compose(plan)
        except (NoColumnLeftError, UnusableError) as error:
            self._refuse(str(error), asked)
            return
        self._plan = plan
        self._past.reloads["applied"] += 1
        self._past.generation += 1
        self._past.error = None
        self._asked = asked
        self._log.info("configuration applied", generation=self._past.generation, asked_by=asked)
        self._took(plan.config)
        self._begin(told, now_ns)

    def _compose(self, plan: Plan) -> Told:
        """The specs with what was discovered; then the columns are theirs.

        Raises NoColumnLeftError or deployment.UnusableError; then nothing is changed.
        """
        merged = Plan(
            discovery.merged(plan.config, self._found), {**plan.kinds, **self._launched.kinds(plan.config)}
        )
        columns = self._columns.proposed(places(merged.config))
        told = self._means.compose(merged, columns)
        self._means.prepare(plan.config, told)
        if told.shadow is None and self._told.shadow is not None:
            # Without experiments it goes on, idle: it knows the books of the past ones, and closes them.
            told = replace(told, shadow=replace(self._told.shadow, experiments=()))
        if told.launch is None and self._told.launch is not None:
            told = replace(told, launch=replace(self._told.launch, engines=(), watched=()))
        if told.record is None and self._told.record is not None:
            told = replace(told, record=replace(self._told.record, to=""))
        self._columns.hold(columns)
        return told

    def _begin(self, told: Told, now_ns: int) -> None:
        """Tell all processes; those that are started from now on begin with the newest."""
        assert self._staff is not None
        old, self._told = self._told, told
        self._number += 1

        def body(spec: Spec) -> bytes:
            return line.renewed(self._number, to_json(spec))

        steps = rollout.steps(old, told, body)
        for child in self._means.children(told, self._plan.config):
            self._staff.keep(child)
        self._staff.tell(DISCOVERY, "sources", discovery.to_json(discovery.sources(self._plan.config)))
        self._staff.tell(EVENTS, "engines", kv.to_json(kv.kv_spec(told.workers[0])))
        self._rollout = Rollout(self._number, steps, _PATIENCE_NS)
        self.look(now_ns)

    def _arrived(self, done: Rollout, now_ns: int) -> None:
        """All were told."""
        self._rollout = None
        self._past.trouble = {**dict.fromkeys(done.late, "it has not answered yet"), **done.errors}
        if self._past.trouble:
            self._log.error("not every process has the new configuration", trouble=self._past.trouble)
        else:
            self._columns.all_heard()
        asked, self._asked = self._asked, ()
        self._answer(asked)
        wanted, self._wanted = self._wanted, None
        moved, self._moved = self._moved, False
        if wanted is not None:
            self._take(wanted.plan, wanted.asked, now_ns)
        elif moved:
            self._move(now_ns)
        self._tell_ready()

    def _refuse(self, why: str, asked: tuple[str, ...]) -> None:
        self._past.reloads["refused"] += 1
        self._past.error = why
        self._log.error("configuration refused; the old one goes on", why=why, asked_by=asked)
        self._answer(asked)

    # Discovery

    def _discovered(self, found: discovery.Found, now_ns: int) -> None:
        for clash in discovery.clashes(self._plan.config, found):
            self._log.error(
                "discovered engine not used: copies are sent there", fleet=found.fleet, engine=clash
            )
        before = self._found.get(found.fleet)
        if found.urls is None:  # no usable answer: what was found before stays
            self._found[found.fleet] = discovery.Found(
                found.fleet, before.urls if before is not None else None, found.error
            )
            self._tell_state()
            return
        self._found[found.fleet] = found
        if before is not None and before.urls == found.urls:
            self._tell_state()
        elif self._rollout is not None:
            self._moved = True
        else:
            self._move(now_ns)

    def _move(self, now_ns: int) -> None:
        """Engines came or went under the same configuration."""
        try:
            told = self._compose(self._plan)
        except (NoColumnLeftError, UnusableError) as error:
            self._log.error("discovered engines are not used", why=str(error))
            return
        if told != self._told:
            self._begin(told, now_ns)
        self._tell_state()

    # Launched engines

    def _fared(self, body: bytes, now_ns: int) -> None:
        """The launching process told how its engines fare."""
        if self._launched.told(body, self._plan.config):  # one turned out to be of another kind
            if self._rollout is not None:
                self._moved = True
            else:
                self._move(now_ns)
        self._tell_ready()
        self._tell_state()

    def _tell_ready(self) -> None:
        """Tell the shadow process which launched engines may have copies; one that is about to be told
        another configuration hears of new ones after it.  And who launches, whose turn it is."""
        if self._staff is None:
            return
        ready = self._launched.ready(self._told, settled=self._rollout is None)
        if ready is not None and self._staff.tell(SHADOW, "ready", ready):
            self._launched.heard()
        turns = self._launched.turns()
        if turns is not None and self._staff.tell(LAUNCH, "turns", turns):
            self._launched.turned()

    # What is told of it

    def _answer(self, asked: tuple[str, ...]) -> None:
        self._past.answered = [*self._past.answered, *asked][-_TOKENS:]
        self._tell_state()

    def _tell_state(self) -> None:
        if self._staff is None:
            return
        past = self._past
        state = {
            "draining": self._draining,
            "answered": past.answered,
            "config": {
                "generation": past.generation,
                "reloads": dict(past.reloads),
                "error": past.error,
                "trouble": past.trouble,
            },
            "discovery": {
                source.fleet: {
                    "source": source.told,
                    "engines": len(found.urls or ()) if (found := self._found.get(source.fleet)) else 0,
                    "error": found.error if found else "no answer yet",
                }
                for source in discovery.sources(self._plan.config).sources
            },
            "kv_events": self._publishers,
            "launched": self._launched.shown(),
        }
        self._staff.tell(ANALYSIS, "state", json.dumps(state).encode())
