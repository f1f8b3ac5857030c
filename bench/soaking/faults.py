"""A soak's faults: engines killed and started again, configs reloaded; and which of them explain what."""

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random

from bench.soaking.asks import CUT
from bench.soaking.clients import Ended

# What a client may see when the engine that answered it is killed, and when one that had not begun to is.
_OF_A_KILL = frozenset({CUT, "status 502", "status 503"})
_EVERY_S = (1.0, 3.0)
_DOWN_S = (0.2, 1.5)


class Engines:
    """Engine processes on fixed ports.  One production engine at a time is down."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._running = {port: _start(port) for port in ports}
        self.kills: list[tuple[float, int, bool]] = []  # (instant, process, is it a production engine)

    def kill(self, port: int, *, production: bool) -> None:
        """At once, as the kernel's out-of-memory killer does."""
        process = self._running[port]
        self.kills.append((time.monotonic(), process.pid, production))
        process.kill()
        process.wait()

    def start(self, port: int) -> None:
        self._running[port] = _start(port)

    def stop(self) -> None:
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()

    def explains(self, ended: Ended) -> bool:
        """Whether a kill during the request, of the engine that answered where that is known, explains it."""
        if ended.outcome not in _OF_A_KILL:
            return False
        return any(
            production and ended.begun_s <= at_s <= ended.ended_s and ended.served_by in ("", str(pid))
            for at_s, pid, production in self.kills
        )


def _start(port: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "bench.soaking.engine", str(port)])


async def inject(
    engines: Engines,
    production: Sequence[int],
    arms: Sequence[int],
    reload: Callable[[], None],
    rng: Random,
    stop: asyncio.Event,
    done: Counter[str],
) -> None:
    """Faults, one after the other, until `stop`; then all engines run."""
    while not stop.is_set():
        await asyncio.sleep(rng.uniform(*_EVERY_S))
        what = rng.choice(("engine killed", "engine killed", "arm killed", "config reloaded"))
        done[what] += 1
        if what == "config reloaded":
            reload()
            continue
        port = rng.choice(arms if what == "arm killed" else production)
        engines.kill(port, production=what == "engine killed")
        await asyncio.sleep(rng.uniform(*_DOWN_S))
        engines.start(port)


def sorted_out(ended: Iterable[Ended], engines: Engines) -> tuple[Counter[str], Counter[str], list[Ended]]:
    """(requests by kind, those that a kill explains by kind and outcome, the unexplained)."""
    kinds: Counter[str] = Counter()
    explained: Counter[str] = Counter()
    unexplained = []
    for one in ended:
        kinds[one.ask.kind] += 1
        if one.is_good:
            continue
        if engines.explains(one):
            explained[f"{one.ask.kind}: {one.outcome}"] += 1
        else:
            unexplained.append(one)
    return kinds, explained, unexplained
