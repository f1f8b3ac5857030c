"""The gateway's side of a run: its fleet, its router and a policy, told of instants as its workers are."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from bench.routing.asks import Ask
from bench.routing.engine import Answer
from bench.routing.engine import Engine as Emulated
from bench.routing.setting import Setting
from bench.routing.told import Promise, Told
from bench.routing.world import Sent
from gateway.fleets.fleet import Engine, Fleet, Fleets
from gateway.fleets.loads import LoadTable
from gateway.fleets.reported import Reported, take_in
from gateway.spec import EngineSpec, FleetSpec
from gateway.usage import Usage
from routing.index import PrefixIndex
from routing.policy import Policy
from routing.router import Router
from routing.types import Choice, Prompt

LEARN_NS = 1_000_000_000
PROBE_NS = 2_000_000_000  # between two looks at an engine's metrics, as `health.probe_every_s` has it
GIE_NS = 50_000_000  # as GIE's endpoint picker has it


class Ours:
    """`setting.workers` workers that share a load table; requests come to them at random.

    Every `report_ns` the engines tell their queue and cache usage. `reading`, where they tell of their blocks
    too: how that is taken (`told`).
    """

    def __init__(
        self,
        make: Callable[[], Policy],
        setting: Setting,
        seed: int,
        emulated: Sequence[Emulated],
        report_ns: int = PROBE_NS,
        reading: str | None = None,
    ) -> None:
        self._rng = Random(f"workers {seed}")
        self._emulated = emulated
        self._every_ns = report_ns
        self._learn_ns, self._report_ns = LEARN_NS, 0
        with tempfile.TemporaryDirectory() as directory:
            loads = self._table = LoadTable.create(
                Path(directory) / "loads", setting.workers, setting.engines
            )
        specs = tuple(EngineSpec(n, f"http://engine-{n}", kind="vllm") for n in range(setting.engines))
        spec = FleetSpec("m", ("m",), True, specs)
        self._told = None if reading is None else Told(emulated, reading)
        self._workers: list[tuple[Fleets, Fleet]] = []
        for worker in range(setting.workers):
            engines = [Engine(one) for one in specs]
            fleet = Fleet(spec, engines, Router(make(), PrefixIndex(), Random(f"{seed} {worker}")))
            fleet.router.know(self._told)
            self._workers.append((Fleets([fleet], loads, loads.row(worker)), fleet))

    def loads(self) -> list[tuple[int, ...]]:
        """What all workers together have at each engine."""
        return [self._table.totals(engine) for engine in range(self._table.engines)]

    def choose(self, ask: Ask, now_ns: int, without: frozenset[int]) -> Sent | None:
        workers = self._workers
        fleets, fleet = workers[0] if len(workers) == 1 else self._rng.choice(workers)
        if self._told is not None:
            self._told.ask = ask
        found = fleets.choose(fleet, ask.prompt, now_ns / 1e9, without)
        if found is None:
            return None
        engine, choice = found
        charged = _Charged(fleets, fleet, engine, choice)
        if self._told is not None:
            charged.promise = self._told.promised(engine.id)
        return Sent(ask, engine.id, charged, now_ns)

    def refused(self, sent: Sent, now_ns: int) -> None:
        _note(sent).release(sent.ask.prompt, answered=False)

    def began(self, sent: Sent, answer: Answer, now_ns: int) -> None:
        charged = _note(sent)
        charged.began()
        charged.fleet.router.answered(sent.engine, sent.ask.prompt)

    def ended(self, sent: Sent, answer: Answer, now_ns: int) -> None:
        charged = _note(sent)
        charged.release(sent.ask.prompt)
        charged.engine.said(sent.ask.prompt, answer.output_tokens)
        told = Usage(answer.prompt_tokens, answer.cached_tokens, answer.output_tokens)
        if self._told is not None and charged.promise is not None:
            self._told.answered(sent.engine, charged.promise, answer)
        charged.engine.streamed(charged.choice, sent.sent_ns, answer.first_ns, now_ns, told)

    def look(self, now_ns: int) -> None:
        """What a worker does by the clock; before each choice, and not counted as a part of it."""
        if now_ns >= self._learn_ns:
            self._learn_ns = now_ns + LEARN_NS
            for fleets, _ in self._workers:
                fleets.learn(now_ns / 1e9)
        if now_ns >= self._report_ns:
            self._report_ns = now_ns + self._every_ns
            for _, fleet in self._workers:
                for engine, emulated in zip(fleet.engines, self._emulated, strict=True):
                    take_in(engine.load, _said(emulated))


class _Charged:
    """One request's charge, as `gateway.attempt` keeps it."""

    __slots__ = ("choice", "engine", "fleet", "fleets", "pending_bytes", "promise")

    def __init__(self, fleets: Fleets, fleet: Fleet, engine: Engine, choice: Choice) -> None:
        self.fleets = fleets
        self.fleet = fleet
        self.engine = engine
        self.choice = choice
        self.pending_bytes = choice.uncached_bytes
        self.promise: Promise | None = None

    def began(self) -> None:
        self.fleets.prefilled(self.engine, self.pending_bytes)
        self.pending_bytes = 0

    def release(self, prompt: Prompt, *, answered: bool = True) -> None:
        self.fleets.released(self.engine, prompt, self.pending_bytes, answered=answered)
        self.pending_bytes = 0


def _note(sent: Sent) -> _Charged:
    assert isinstance(sent.note, _Charged)
    return sent.note


def _said(emulated: Emulated) -> Reported:
    scheduler, cache = emulated.scheduler, emulated.cache
    size = cache.block_size
    return Reported(scheduler.running, scheduler.waiting, cache.usage, cache.num_blocks * size, size)
