"""How the workers pool what they learn of the engines' speed: doubles beside the load table, a row a worker.

Each worker learns from its own answers and writes what it found, once a second; every worker reads all rows
and weighs them by the samples behind them.  A row is written by one process only, its cells are aligned: no
reader sees half a number.  Figures of two instants may be mixed for a moment, which a cost can bear.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from routing import credits
from routing import rates as learning
from routing.types import Rates

if TYPE_CHECKING:
    from gateway.fleets.fleet import Engine

_NAMES: Final[tuple[str, ...]] = learning.FIGURES + tuple(name for tier in credits.TIERS for name in tier)
CELLS: Final = len(_NAMES) + 2  # samples, the instant, the figures


class RateTable:
    """`cells` are doubles, `CELLS` for each engine of each worker."""

    def __init__(self, cells: "memoryview[float]", workers: int, engines: int) -> None:
        self._cells = cells
        self._workers = workers
        self._engines = engines

    def write(self, worker: int, engine: int, rates: Rates | None, at_s: float) -> None:
        """What `worker` knows of `engine` at `at_s`, by the clock all processes share; None: nothing."""
        cells, at = self._cells, (worker * self._engines + engine) * CELLS
        if rates is None:
            cells[at] = 0.0
            return
        for place, name in enumerate(_NAMES, at + 2):
            cells[place] = getattr(rates, name)
        cells[at], cells[at + 1] = float(rates.samples), at_s

    def read(self, engine: int, since_s: float) -> Rates | None:
        """What all workers together know of `engine`; what was written before `since_s` is forgotten."""
        found: list[Rates] = []
        for worker in range(self._workers):
            at = (worker * self._engines + engine) * CELLS
            samples, at_s, *figures = self._cells[at : at + CELLS].tolist()
            if samples >= 1.0 and at_s >= since_s:
                found.append(Rates(int(samples), **dict(zip(_NAMES, figures, strict=True))))
        if len(found) > 1:
            return learning.pooled(found)
        return found[0] if found else None

    def release(self) -> None:
        """Let go of the memory."""
        self._cells.release()


def learn(engines: "Sequence[Engine]", table: RateTable, worker: int, now_s: float) -> None:
    """Take in what a fleet's engines answered, and set the rates they are chosen by; once a second."""
    if any(engine.samples for engine in engines):
        for engine in engines:
            engine.learner.heard(engine.samples)
            engine.samples = []
        heard = [engine.learner.samples(now_s) for engine in engines]
        for engine, samples, own in zip(engines, heard, learning.learned(heard), strict=True):
            if own is not None:
                table.write(worker, engine.id, own, samples[-1].at_s)
    of_engine = [table.read(engine.id, now_s - learning.MAX_AGE_S) for engine in engines]
    known = [one for one in of_engine if one is not None]
    fleet = learning.alike(known) if known else None
    for engine, pooled in zip(engines, of_engine, strict=True):
        if fleet is None:
            engine.load.rates = None
            continue
        rates = fleet if pooled is None else pooled
        if rates is not fleet:
            learning.settle(rates, fleet)
        engine.load.rates = rates
