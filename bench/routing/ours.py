"""The gateway's side of a run: its fleet, its router and a policy, told of instants as its workers are."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from bench.routing.asks import Ask
from bench.routing.engine import Answer
from bench.routing.setting import Setting
from bench.routing.world import Sent
from gateway.fleet import Engine, Fleet, Fleets
from gateway.loads import LoadTable
from gateway.spec import EngineSpec, FleetSpec
from routing.index import PrefixIndex
from routing.policy import Policy
from routing.router import Router
from routing.types import Choice

BYTES_PER_TOKEN = 4  # what a gateway takes for granted


class Ours:
    """`setting.workers` workers that share a load table; requests come to them at random."""

    def __init__(self, make: Callable[[], Policy], setting: Setting, seed: int) -> None:
        self._rng = Random(f"workers {seed}")
        with tempfile.TemporaryDirectory() as directory:
            loads = LoadTable.create(Path(directory) / "loads", setting.workers, setting.engines)
        specs = tuple(EngineSpec(n, f"http://engine-{n}", kind="vllm") for n in range(setting.engines))
        spec = FleetSpec("m", ("m",), True, specs)
        self._workers: list[tuple[Fleets, Fleet, list[Engine]]] = []
        for worker in range(setting.workers):
            index = PrefixIndex()
            for engine in specs:
                index.set_capacity(engine.id, setting.kv_tokens * BYTES_PER_TOKEN)
            engines = [Engine(one) for one in specs]
            fleet = Fleet(spec, engines, Router(make(), index, Random(f"{seed} {worker}")))
            self._workers.append((Fleets([fleet], loads, loads.row(worker)), fleet, engines))

    def choose(self, ask: Ask, now_ns: int, without: frozenset[int]) -> Sent | None:
        workers = self._workers
        worker = workers[0] if len(workers) == 1 else self._rng.choice(workers)
        fleets, fleet, _ = worker
        found = fleets.choose(fleet, ask.prompt, now_ns / 1e9, without)
        if found is None:
            return None
        engine, choice = found
        return Sent(ask, engine.id, _Charged(fleets, engine, choice), now_ns)

    def refused(self, sent: Sent, now_ns: int) -> None:
        _note(sent).release()

    def began(self, sent: Sent, answer: Answer, now_ns: int) -> None:
        _note(sent).began()

    def ended(self, sent: Sent, answer: Answer, now_ns: int) -> None:
        _note(sent).release()


class _Charged:
    """One request's charge, as `gateway.attempt` keeps it."""

    __slots__ = ("engine", "fleets", "pending_bytes")

    def __init__(self, fleets: Fleets, engine: Engine, choice: Choice) -> None:
        self.fleets = fleets
        self.engine = engine
        self.pending_bytes = choice.uncached_bytes

    def began(self) -> None:
        self.fleets.prefilled(self.engine, self.pending_bytes)
        self.pending_bytes = 0

    def release(self) -> None:
        self.fleets.released(self.engine, self.pending_bytes)
        self.pending_bytes = 0


def _note(sent: Sent) -> _Charged:
    assert isinstance(sent.note, _Charged)
    return sent.note
