"""What is stopped (SIGSTOP) while a benchmark runs, as a stalling machine would: when, for how long."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stall:
    """Stop all that has this name, `at_s` from the beginning, for so long."""

    name: str
    at_s: float
    for_s: float

    @classmethod
    def parse(cls, text: str) -> "Stall":
        """As it is written: `shadow:60:5`.  Raises ValueError."""
        name, at_s, for_s = text.split(":")
        return cls(name, float(at_s), float(for_s))


async def stall(stalls: Sequence[Stall], pids: Callable[[], Mapping[str, Sequence[int]]]) -> None:
    """Stop and continue each in its time.  `pids` tells who has which name now; all go on in the end."""
    async with asyncio.TaskGroup() as group:
        for one in stalls:
            group.create_task(_stalled(one, pids))


async def _stalled(one: Stall, pids: Callable[[], Mapping[str, Sequence[int]]]) -> None:
    await asyncio.sleep(one.at_s)
    stopped = pids()[one.name]
    _signal(stopped, signal.SIGSTOP)
    print(f"{one.at_s:.0f} s: {one.name} is stopped for {one.for_s:g} s", flush=True)
    try:
        await asyncio.sleep(one.for_s)
    finally:
        _signal(stopped, signal.SIGCONT)


def _signal(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
