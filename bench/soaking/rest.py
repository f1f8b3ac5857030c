"""What a gateway at rest holds, and whether it grows: descriptors, tasks, objects, gauges, memory."""

import json
import os
import signal
import statistics
import time
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import procfs
from bench.proxies import admin_port

DATA_PLANE = ("worker", "shadow")
# What was found out stays, and so do how often the config was read and what is thought of an engine until a
# request tries it: they are no load.
_NO_LOAD = ("shadowlane_experiment", "shadowlane_verdict", "shadowlane_config", "shadowlane_engine_state")
_OBJECTS, _FEW = "objects", 10
# What was sent is remembered on purpose, up to what an engine's cache holds: it grows as prompts differ.
_REMEMBERED = frozenset({"routing.recency.Run"})
_WITNESS_S = 10.0


@dataclass(frozen=True, slots=True)
class Rest:
    """Names of things that are held, and how many."""

    held: Mapping[str, float]

    def beyond(self, base: "Rest") -> dict[str, tuple[float, float]]:
        """What is held above `base`: name -> (then, now).

        Of objects a few more are no leak: the last of a kind may still be named by something that lives.
        """
        found = {}
        for name, now in self.held.items():
            then = base.held.get(name, 0)
            if now > then + (_FEW if _OBJECTS in name else 0):
                found[name] = (then, now)
        return found


def look(pids: Mapping[str, int], port: int, witness: Path) -> Rest:
    """Ask the kernel, the processes themselves and /metrics."""
    held: dict[str, float] = {}
    for part in DATA_PLANE:
        held[f"{part}: descriptors"] = procfs.descriptors(pids[part])
        held[f"{part}: threads"] = procfs.threads(pids[part])
        living = _living(pids[part], witness)
        held[f"{part}: tasks"] = living.pop("tasks")
        held |= {f"{part}: {_OBJECTS} {kind}": n for kind, n in living.items() if kind not in _REMEMBERED}
    held |= {name: value for name, value in _gauges(port).items() if not name.startswith(_NO_LOAD)}
    return Rest(held)


def _living(pid: int, witness: Path) -> dict[str, int]:
    """What the process says lives in it; see witness/sitecustomize.py."""
    answer = witness / str(pid)
    answer.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR2)
    end_s = time.monotonic() + _WITNESS_S
    while not answer.exists():
        if time.monotonic() > end_s:
            raise SystemExit(f"process {pid} did not say what lives in it within {_WITNESS_S:.0f} s")
        time.sleep(0.02)
    found: dict[str, int] = json.loads(answer.read_text())
    return found


def _gauges(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{admin_port(port)}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    kinds = {
        words[2] for line in lines if (words := line.split())[:2] == ["#", "TYPE"] and words[3] == "gauge"
    }
    found = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in found if name.partition("{")[0] in kinds}


class Memory:
    """Resident memory of each process over time."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._samples: dict[str, list[tuple[float, float]]] = {part: [] for part in pids}

    def sample(self) -> None:
        for part, pid in self._pids.items():
            self._samples[part].append((time.monotonic(), procfs.rss_kb(pid) / 1024))

    def growth(self) -> dict[str, tuple[list[float], float]]:
        """Process -> (MB at the beginning and after each quarter, MB a minute)."""
        return {
            part: ([found[at][1] for at in _quarters(len(found))], slope(found))
            for part, found in self._samples.items()
        }


def _quarters(samples: int) -> list[int]:
    return [(samples - 1) * n // 4 for n in range(5)]


def slope(samples: Sequence[tuple[float, float]]) -> float:
    """The least-squares slope of (seconds, MB), in MB a minute."""
    times, sizes = zip(*samples, strict=True)
    if len(samples) < 2 or times[0] == times[-1]:
        return 0.0
    return statistics.linear_regression(times, sizes).slope * 60


def shown(beyond: Mapping[str, tuple[float, float]]) -> Iterable[str]:
    for name, (then, now) in sorted(beyond.items()):
        yield f"  {name}: {then:g} -> {now:g}"
