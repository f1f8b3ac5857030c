"""A soak's faults: engines killed and started again, configs reloaded; and which of them explain what."""

import asyncio
import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from bench.soaking.asks import CUT
from bench.soaking.clients import Ended

# What a client may see when the engine that answered it is killed, and when one that had not begun to is.
_OF_A_KILL = frozenset({CUT, "status 502", "status 503"})
_EVERY_S = (1.0, 3.0)
_DOWN_S = (0.2, 1.5)
_LOOKED_S = 0.02
_STARTS_S = 60.0  # on a busy machine a process takes seconds


@dataclass(slots=True)
class _Kill:
    at_s: float
    pid: int
    back_s: float = math.inf  # when it listens again


class Engines:
    """Engine processes on fixed ports.  One at a time is down: before the next goes the last one listens."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._running = {port: _start(port) for port in ports}
        self._kills: list[_Kill] = []

    async def kill(self, port: int, down_s: float, *, production: bool) -> None:
        """At once, as the kernel's out-of-memory killer does; and start it again after `down_s`."""
        process = self._running[port]
        kill = _Kill(time.monotonic(), process.pid)
        if production:
            self._kills.append(kill)
        process.kill()
        process.wait()
        await asyncio.sleep(down_s)
        self._running[port] = process = _start(port)
        await listening(port, process)
        kill.back_s = time.monotonic()

    def stop(self) -> None:
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()

    def explains(self, ended: Ended) -> bool:
        """Whether a kill during the request, of the engine that answered where that is known, explains it.

        What was asked while an engine was already down must succeed on another, unless its body was not held.
        """
        if ended.outcome not in _OF_A_KILL:
            return False
        return any(
            kill.at_s <= ended.ended_s
            and ended.begun_s <= (kill.at_s if ended.ask.is_held else kill.back_s)
            and ended.served_by in ("", str(kill.pid))
            for kill in self._kills
        )


async def listening(port: int, process: "subprocess.Popen[bytes]", within_s: float = _STARTS_S) -> None:
    """Wait until the process does; `RuntimeError` when it has ended, or does not in time."""
    end_s = time.monotonic() + within_s
    while True:
        if process.poll() is not None:
            raise RuntimeError(f"the engine for port {port} ended with status {process.returncode}")
        try:
            _reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            if time.monotonic() >= end_s:
                raise RuntimeError(f"no engine listens on port {port} after {within_s:g} s") from None
            await asyncio.sleep(_LOOKED_S)
        else:
            writer.close()
            return


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
        await engines.kill(port, rng.uniform(*_DOWN_S), production=what == "engine killed")


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
