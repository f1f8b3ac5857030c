"""What do the arms' engines count of their own work?  Their metrics are read at a fixed interval.

Over connections of their own, so that no copy waits; an engine without metrics is asked every sixtieth time.
"""

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic_ns
from typing import Any

from mirror.arms import Arm
from mirror.comparison import Comparison
from wire.counted import NOTHING, counted
from wire.dialect import dialect
from wire.fetch import fetch
from wire.http1 import request_bytes
from wire.tasks import Tasks
from wire.upstream import Pool

_TIMEOUT_S = 2.0
_SILENT_TURNS = 60  # between two questions to an engine that has no metrics


class Counting:
    """Reads all arms' metrics and offers what they say: `offer(fields)` may refuse, and then it is lost.

    Each frame has `at_ns`, how late this process was by then (`late_ms`), the integral of what it has in
    flight at the arm (`busy_ns`), and what the engine says, or `why` it says nothing.
    """

    def __init__(
        self,
        experiments: Callable[[], Mapping[str, Comparison]],
        offer: Callable[[dict[str, Any]], bool],
        every_s: Callable[[], float],
    ) -> None:
        self._experiments = experiments
        self._offer = offer
        self._every_s = every_s
        self._pools: dict[int, tuple[Arm, Pool]] = {}
        self._silent: dict[int, int] = {}
        self._asking: set[int] = set()
        self._tasks = Tasks()
        self.lost = 0

    async def follow(self) -> None:
        """Look, for ever; an engine that has not answered yet is not asked again meanwhile."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                due_s = loop.time() + self._every_s()
                await asyncio.sleep(self._every_s())
                late_ms = max(0.0, (loop.time() - due_s) * 1e3)
                for name, one in self._experiments().items():
                    for arm in _there(one):
                        if id(arm) not in self._asking:
                            self._asking.add(id(arm))
                            self._tasks.spawn(self._ask(name, one, arm, late_ms), name=f"metrics of {name}")
                self._forget()
        finally:
            await self._tasks.cancel()
            for _, pool in self._pools.values():
                pool.close()

    async def _ask(self, experiment: str, one: Comparison, arm: Arm, late_ms: float) -> None:
        silent = self._silent.get(id(arm), 0)
        said, why = NOTHING, "its metrics say nothing that is known"
        if silent:
            self._asking.discard(id(arm))
            self._silent[id(arm)] = silent - 1
            why = "it has no metrics"
        else:
            try:
                found = await fetch(self._pool(arm), _question(arm), _TIMEOUT_S)
            finally:
                self._asking.discard(id(arm))
            if found.status == 200:
                said = counted(found.body)
            elif found.status:
                self._silent[id(arm)] = _SILENT_TURNS
                why = f"its metrics answered {found.status}"
            else:
                why = "its metrics did not answer"
        now_ns = monotonic_ns()
        told = {"said": said.to_map()} if said is not NOTHING else {"why": why}
        frame = {"experiment": experiment, "epoch": one.phase.epoch, "arm": arm.spec.name, "at_ns": now_ns}
        taken = self._offer({**frame, "late_ms": late_ms, "busy_ns": arm.busy_ns(now_ns), **told})
        self.lost += not taken

    def _pool(self, arm: Arm) -> Pool:
        known = self._pools.get(id(arm))
        if known is None:
            known = self._pools[id(arm)] = (arm, arm.another_pool())
        return known[1]

    def _forget(self) -> None:
        """Let go of engines that are no arm's any more."""
        there = {id(arm) for one in self._experiments().values() for arm in one.arms}
        for key in [key for key in self._pools if key not in there]:
            self._pools.pop(key)[1].close()
            self._silent.pop(key, None)


def _there(one: Comparison) -> list[Arm]:
    """The arms that are ready, or where arms take turns the one that stands."""
    status = one.status()
    if status["slots"] is not None:
        return [arm for arm in one.arms if arm.spec.name == status["slots"]["standing"]]
    return [arm for arm in one.arms if arm.spec.name not in status["lacking"]]


def _question(arm: Arm) -> bytes:
    headers = [("host", arm.origin.authority), ("accept", "*/*"), ("user-agent", "shadowlane")]
    headers += arm.spec.headers
    return request_bytes("GET", arm.origin.path + dialect(arm.spec.kind).metrics_path, headers)
