"""What is charged at a choice is released, however requests interleave, and every worker sees it at once."""

import multiprocessing
from collections import Counter
from multiprocessing.synchronize import Barrier
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.fleets.fleet import Engine, Fleet, Fleets
from gateway.fleets.loads import LoadTable
from gateway.spec import EngineSpec, FleetSpec
from routing.index import PrefixIndex
from routing.policies import prefix_cost
from routing.router import Router
from routing.types import Choice, Prompt

ENGINES, WORKERS = 3, 2
paths = st.lists(st.integers(0, 2), max_size=4).map(tuple)


def prompt_of(path: tuple[int, ...], step: int = 100) -> Prompt:
    chain = [hash(path[: n + 1]) & (2**63 - 1) for n in range(len(path))]
    return Prompt("m", chain, [step * (n + 1) for n in range(len(path))], 0, 0, True, None)


def worker(table: LoadTable, number: int, engines: int, capacity_bytes: int = 1000) -> tuple[Fleets, Fleet]:
    specs = tuple(EngineSpec(n, f"http://engine-{n}", kind="vllm") for n in range(engines))
    router = Router(prefix_cost.build(prefix_cost.Params()), PrefixIndex(capacity_bytes), Random(number))
    fleet = Fleet(FleetSpec("m", ("m",), True, specs), [Engine(one) for one in specs], router)
    return Fleets([fleet], table, table.row(number)), fleet


class Open:
    """A request on its way."""

    def __init__(self, worker: int, engine: Engine, choice: Choice, prompt: Prompt) -> None:
        self.worker, self.engine, self.prompt = worker, engine, prompt
        self.pending_bytes = choice.uncached_bytes


class Charged(RuleBasedStateMachine):
    """Two workers that choose, get tokens, end and lose engines in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.table = LoadTable.create(Path(self.folder.name) / "loads", WORKERS, ENGINES)
        self.workers = [worker(self.table, n, ENGINES) for n in range(WORKERS)]
        self.open: list[Open] = []
        self.now_s = 0.0

    def teardown(self) -> None:
        while self.open:
            self.end(0, True)
        assert [self.table.totals(n) for n in range(ENGINES)] == [(0, 0, 0, 0)] * ENGINES
        assert all(self.table.is_empty(n) for n in range(ENGINES))
        del self.workers
        self.table.close()
        self.folder.cleanup()

    @rule(number=st.integers(0, WORKERS - 1), path=paths, tried=st.sets(st.integers(0, ENGINES - 1)))
    def choose(self, number: int, path: tuple[int, ...], tried: set[int]) -> None:
        fleets, fleet = self.workers[number]
        self.now_s += 1.0
        prompt = prompt_of(path)
        chosen = fleets.choose(fleet, prompt, self.now_s, tried)
        assert (chosen is None) == (len(tried) == ENGINES)
        if chosen is not None:
            self.open.append(Open(number, *chosen, prompt))

    @rule(which=st.integers(0, 30))
    def token(self, which: int) -> None:
        if which < len(self.open):
            one = self.open[which]
            self.workers[one.worker][0].prefilled(one.engine, one.pending_bytes)
            one.pending_bytes = 0

    @rule(which=st.integers(0, 30), answered=st.booleans())
    def end(self, which: int, answered: bool) -> None:
        if which < len(self.open):
            one = self.open.pop(which)
            fleets = self.workers[one.worker][0]
            fleets.released(one.engine, one.prompt, one.pending_bytes, answered=answered)

    @rule(which=st.integers(0, 30))
    def again(self, which: int) -> None:
        """The connection was dead: the same engine once more."""
        if which < len(self.open):
            one = self.open.pop(which)
            fleets = self.workers[one.worker][0]
            fleets.released(one.engine, one.prompt, one.pending_bytes, answered=False)
            choice = fleets.charge(one.engine, one.prompt, self.now_s)
            self.open.append(Open(one.worker, one.engine, choice, one.prompt))

    @rule(number=st.integers(0, WORKERS - 1), engine=st.integers(0, ENGINES - 1))
    def lose(self, number: int, engine: int) -> None:
        self.workers[number][1].router.engine_lost(engine)

    @invariant()
    def all_see_what_is_open(self) -> None:
        for n in range(ENGINES):
            here = [one for one in self.open if one.engine.id == n]
            pending = [one.pending_bytes for one in here if one.pending_bytes]
            inflight, pending_bytes, awaiting, context_bytes = self.table.totals(n)
            assert (inflight, pending_bytes, awaiting) == (len(here), sum(pending), len(pending))
            whole = sum(one.prompt.ends[-1] for one in here if one.prompt.ends)
            assert 0 <= context_bytes <= whole, "shared beginnings count once"
        for number, (_fleets, fleet) in enumerate(self.workers):
            for engine in fleet.engines:
                own = [one for one in self.open if one.engine is engine]
                assert engine.inflight == len(own), number


TestCharged = Charged.TestCase


def asked(number: int, n: int) -> Prompt:
    """A question behind a beginning of 16 KB."""
    return Prompt("m", [1, 2 + number * 100 + n], [16_000, 16_500], 0, 0, True, None)


def _burst(path: str, number: int, ready: Barrier, found: Any) -> None:
    """One worker of several: its requests come with theirs, all with a beginning that one engine holds."""
    table = LoadTable.open(path)
    fleets, fleet = worker(table, number, 4, 1_000_000)
    fleet.router.again(0, Prompt("m", [1], [16_000], 0, 0, True, None), 0.0)
    fleet.router.answered(0, Prompt("m", [1], [16_000], 0, 0, True, None))
    engines = []
    for n in range(5):
        ready.wait(60)  # in step: the worst there is
        chosen = fleets.choose(fleet, asked(number, n), 1.0 + n * 0.01, ())
        assert chosen is not None
        engines.append(chosen[0].id)
    found.put(engines)


def test_workers_that_choose_in_step_do_not_herd(tmp_path: Path) -> None:
    """Alone, each would hold to the engine that holds the beginning: what the others charge there it sees."""
    path, context = str(tmp_path / "loads"), multiprocessing.get_context("spawn")
    table = LoadTable.create(path, 4, 4)
    ready, found = context.Barrier(4), context.Queue()
    workers = [context.Process(target=_burst, args=(path, n, ready, found)) for n in range(4)]
    for one in workers:
        one.start()
    chosen = Counter(engine for _ in workers for engine in found.get(timeout=60))
    for one in workers:
        one.join(60)
    assert chosen.total() == 20
    assert max(chosen.values()) <= 14, "those of a moment or two, and not all"
    assert [table.totals(n)[0] for n in range(4)] == [chosen[n] for n in range(4)]
    table.close()
