"""How late is this process?  Timers of its own, and by how much each fires after it was due."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any

EVERY_S = 0.05
LATE_NS = 50_000_000


@dataclass(slots=True)
class Lateness:
    """What the timers said since `take`: how many there were, how many were `LATE_NS` late, and the worst."""

    timers: int = 0
    late: int = 0
    worst_ns: int = 0

    def add(self, late_ns: int) -> None:
        """One timer fired so long after it was due."""
        self.timers += 1
        self.late += late_ns >= LATE_NS
        self.worst_ns = max(self.worst_ns, late_ns)

    def take(self) -> dict[str, Any]:
        """As it is sent; counts from zero again."""
        said = {"timers": self.timers, "late": self.late, "worst_ms": self.worst_ns / 1e6}
        self.timers = self.late = self.worst_ns = 0
        return said

    async def watch(self, is_busy: Callable[[], bool]) -> None:
        """Set timers for ever.  Those count that were set or fired while there was something to write down:
        with the idle ones a quiet night would make up for a day on which answers were read late."""
        while True:
            due_ns, was_busy = monotonic_ns() + int(EVERY_S * 1e9), is_busy()
            await asyncio.sleep(EVERY_S)
            if was_busy or is_busy():
                self.add(max(0, monotonic_ns() - due_ns))
