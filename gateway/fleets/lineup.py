"""Which engines does a worker serve with, and how does one list of them become the next while requests run?

An engine that stays keeps all that is known of it: its connections, its load, its health, what it holds.  One
that is new serves after its first good probe.  One that is gone gets no new request; those it has may finish.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import routing.policies
from config import plugins
from gateway.fleets.fleet import Engine, Fleet, Fleets
from gateway.fleets.health import Health
from gateway.fleets.loads import LoadRow, LoadTable
from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from gateway.split.roles import Roles
from routing.handed import Handed
from routing.index import PrefixIndex
from routing.policy import Policy
from routing.router import Router
from routing.shadow import Shadow
from wire.tasks import Tasks
from wire.upstream import Pool


@dataclass(frozen=True, slots=True)
class _Leaving:
    engine: Engine
    pool: Pool
    until_ns: int


class _Routes(NamedTuple):
    """What a fleet's choices are made by; `decode` where it is split."""

    memory: PrefixIndex
    router: Router
    decode: Router | None
    shadow: Shadow | None


class Lineup:
    """One worker's engines over time.

    `pool_of` makes an engine's connection pool.  `lost(fleet)` is called when an engine that was up is found
    down: its address may be out of date.
    """

    def __init__(
        self,
        loads: LoadTable,
        row: LoadRow,
        pool_of: Callable[[EngineSpec, LimitsSpec], Pool],
        tasks: Tasks,
        log: Any,
        lost: Callable[[str], None] = lambda _fleet: None,
    ) -> None:
        self._loads = loads
        self._row = row
        self._pool_of = pool_of
        self._tasks = tasks
        self._log = log
        self._lost = lost
        self._fleets: dict[str | None, Fleet] = {}
        self._indexes: dict[str | None, PrefixIndex] = {}
        self._outgoing: dict[
            str | None, dict[int, tuple[Engine, int]]
        ] = {}  # in use until a new engine is up
        self._watches: dict[int, asyncio.Task[None]] = {}
        self._leaving: list[_Leaving] = []
        self._pools: dict[int, Pool] = {}
        self._explained = 0.0
        self.fleets = Fleets((), loads, row)

    @property
    def pools(self) -> dict[int, Pool]:
        """The pool of each engine, those that leave included."""
        return {one.engine.id: one.pool for one in self._leaving} | self._pools

    @property
    def missed(self) -> int:
        """Times other workers' choices came faster than they were read."""
        return self._row.choices.missed

    @property
    def leaving(self) -> list[Engine]:
        """Engines taken out that still have requests."""
        return [one.engine for one in self._leaving]

    def renew(
        self,
        fleets: Sequence[FleetSpec],
        limits: LimitsSpec,
        now_ns: int,
        *,
        first: bool = False,
        explained: float = 0.0,
    ) -> Fleets:
        """Serve with these from now on.  At the `first` call all engines may be used before they are probed.

        `explained`: this share of the choices carries every engine's cost.
        Raises what a policy raises that cannot be built; then nothing has changed.
        """
        made = [self._made(spec) for spec in fleets]
        self._explained = explained
        until_ns = now_ns + int(limits.leaving_s * 1e9)
        self._free_numbers(fleets, until_ns)
        for pool in self._pools.values():
            pool.limit(
                connect_timeout_s=limits.connect_timeout_s,
                head_limit_bytes=limits.head_bytes,
                idle_s=limits.engine_idle_s,
                max_connections=limits.engine_connections,
                resolve_s=limits.resolve_s,
            )
        renewed = [self._fleet(spec, routes) for spec, routes in zip(fleets, made, strict=True)]
        for fleet in renewed:
            had = {engine.id: engine for engine in fleet.engines}
            serving = [
                had.pop(spec.id) if spec.id in had else self._added(spec, fleet, limits, up=first)
                for spec in fleet.spec.engines
            ]
            for engine, spec in zip(serving, fleet.spec.engines, strict=True):
                engine.is_now(spec)
            # Old engines serve until one of the new ones has been heard: a fleet that works stays one.
            last = bool(serving) and not any(engine.is_there for engine in serving)
            stay = {engine.id: engine for engine in had.values() if last and engine.is_there}
            self._outgoing[fleet.spec.model] = {id: (engine, until_ns) for id, engine in stay.items()}
            fleet.engines = (*serving, *stay.values())
            for id, engine in had.items():
                if id not in stay:
                    self._take_out(fleet, engine, until_ns)
        for fleet, routes in zip(renewed, made, strict=True):
            split, decode = fleet.spec.split, routes.decode
            # Who does what, anew for each configuration; what is remembered of prompts stays.
            fleet.split = (
                None if split is None or decode is None else Roles(fleet, split, decode, routes.memory)
            )
            fleet.shadow = routes.shadow
        for model in self._fleets.keys() - {spec.model for spec in fleets}:
            fleet = self._fleets.pop(model)
            for engine in fleet.engines:
                self._take_out(fleet, engine, until_ns)
            fleet.engines = ()
            del self._indexes[model]
            self._outgoing.pop(model, None)
        self._serve(renewed)
        return self.fleets

    def _free_numbers(self, fleets: Sequence[FleetSpec], until_ns: int) -> None:
        """Take out at once who has a number that now means another: only after a list that went unheard."""
        meant = {engine.id: (spec.model, engine.url) for spec in fleets for engine in spec.engines}
        for fleet in self._fleets.values():
            for engine in fleet.engines:
                here = (fleet.spec.model, engine.spec.url)
                if meant.get(engine.id, here) != here:
                    fleet.engines = tuple(one for one in fleet.engines if one is not engine)
                    self._take_out(fleet, engine, until_ns)

    def _made(self, spec: FleetSpec) -> _Routes:
        """Build a fleet's policies, and tell them where to look.  Changes nothing, for they may raise."""
        index = self._indexes.get(spec.model) or PrefixIndex()
        router = _router(plugins.build(routing.policies, spec.policy, dict(spec.params)), index)
        decode = None
        if spec.split is not None:
            policy: Policy = plugins.build(routing.policies, spec.split.policy, dict(spec.split.params))
            decode = _router(Handed(policy), index)
        shadow = _shadow(spec)
        if shadow is not None:
            shadow.watch(index)
        return _Routes(index, router, decode, shadow)

    def _fleet(self, spec: FleetSpec, routes: _Routes) -> Fleet:
        """The fleet of this name, new or brought up to date: requests that run keep the object they have."""
        fleet = self._fleets.get(spec.model)
        if fleet is None:
            self._indexes[spec.model] = routes.memory
            fleet = self._fleets[spec.model] = Fleet(spec, (), routes.router)
        elif (spec.policy, dict(spec.params)) != (fleet.spec.policy, dict(fleet.spec.params)):
            fleet.router = routes.router
        fleet.spec = spec
        return fleet

    def _added(self, spec: EngineSpec, fleet: Fleet, limits: LimitsSpec, *, up: bool) -> Engine:
        engine = Engine(spec, up=up)
        if not up:  # its number may have been another's, whose speed is none of its
            self._loads.rates.write(self._row.worker, spec.id, None, 0.0)
        pool = self._pools[spec.id] = self._pool_of(spec, limits)

        def lost() -> None:
            self._lost(fleet.name)

        def busy() -> bool:
            return engine.load.inflight > 0 or self._loads.totals(spec.id)[0] > 0

        health = Health(engine, pool, lost, self._log, lambda: fleet.spec.health, busy, self._loads.workers)
        self._watches[spec.id] = self._tasks.spawn(health.watch(), name=f"health {engine.name}")
        return engine

    def _take_out(self, fleet: Fleet, engine: Engine, until_ns: int) -> None:
        id = engine.id
        self._watches.pop(id).cancel()
        engine.leave()
        pool = self._pools.pop(id)
        pool.close()  # busy connections close with their exchange
        fleet.router.engine_lost(id)  # another engine may have its number one day
        self._leaving.append(_Leaving(engine, pool, until_ns))
        self._log.info("engine taken out", engine=engine.name, fleet=fleet.name, running=engine.inflight)

    def _serve(self, fleets: Iterable[Fleet]) -> None:
        self.fleets = Fleets(fleets, self._loads, self._row)
        self.fleets.explained = self._explained

    def look(self, now_ns: int) -> tuple[list[Engine], list[Engine]]:
        """Look after those that leave, about once a second: who is gone now, and who has had its time."""
        for fleet in self._fleets.values():
            if going := self._outgoing.get(fleet.spec.model):
                serving = [engine for engine in fleet.engines if engine.id not in going]
                ends_ns = min(until_ns for _engine, until_ns in going.values())
                if any(engine.is_there for engine in serving) or now_ns >= ends_ns:
                    fleet.engines = tuple(serving)
                    for engine, until_ns in going.values():
                        self._take_out(fleet, engine, until_ns)
                    going.clear()
                    self._serve(self._fleets.values())
        gone = [one.engine for one in self._leaving if not one.engine.inflight]
        self._leaving = [one for one in self._leaving if one.engine.inflight]
        return gone, [one.engine for one in self._leaving if now_ns >= one.until_ns]

    def close(self) -> None:
        """Close all pools."""
        for pool in self.pools.values():
            pool.close()


def _router(policy: Policy, index: PrefixIndex) -> Router:
    return Router(policy, index, Random(secrets.randbits(64)))


def _shadow(spec: FleetSpec) -> Shadow | None:
    if not spec.score or not spec.score_share:
        return None
    policies = {name: plugins.build(routing.policies, name, dict(params)) for name, params in spec.score}
    return Shadow(policies, Random(secrets.randbits(64)))
