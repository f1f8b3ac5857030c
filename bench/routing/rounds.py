"""Rounds in which routers take turns with the same traffic, kept run by run: a cut run goes on where it was.

A machine that is quiet for a quarter of an hour at a time is enough so: what a file holds is not run again.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from bench.routing.measures import Measures
from bench.routing.plans import Row
from bench.routing.report import read


@dataclass(frozen=True, slots=True)
class Rounds:
    """`routers` on traffic of a load, in the rounds `seeds`.  `path`: where runs are kept, if anywhere;
    after `until_s` (monotonic) no further run is begun."""

    setting: str
    routers: Sequence[str]
    load: float
    seeds: Sequence[int]
    path: Path | None = None
    until_s: float = float("inf")

    def run(self, trace: str, one: Callable[[str, int], Measures]) -> Iterator[list[Row]]:
        """The rounds that are whole, each in the order of `routers`; `one` runs a router on a seed.

        In each round the routers take their turn in another order.
        """
        kept = {}
        if self.path is not None and self.path.exists():
            kept = read([self.path]).get((trace, self.setting), {})
        for seed in self.seeds:
            done = {router: kept.get(seed, {}).get((self.load, router)) for router in self.routers}
            for router in Random(f"{trace} {seed}").sample(self.routers, len(self.routers)):
                if done[router] is None and time.monotonic() < self.until_s:
                    ran = done[router] = one(router, seed)
                    self._keep(trace, seed, router, ran)
                    print(f"{trace}, round {seed + 1}: {router}", file=sys.stderr)
            row = [(self.load, router, its) for router, its in done.items() if its is not None]
            if len(row) == len(self.routers):
                yield row

    def _keep(self, trace: str, seed: int, router: str, ran: Measures) -> None:
        if self.path is None:
            return
        told = {
            "trace": trace, "setting": self.setting, "seed": seed, "load": self.load, "policy": router,
        }  # fmt: skip
        with self.path.open("a", encoding="utf-8") as out:
            out.write(json.dumps({**told, **asdict(ran)}) + "\n")
