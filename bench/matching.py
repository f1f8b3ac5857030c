"""Is the control as loaded as one production engine, with `sample.rate: auto`?  By requests in flight.

    python -m bench.matching
    python -m bench.matching --minutes 10 --rate 30
    python -m bench.matching --minutes 12 --stall shadow:120:5 --stall worker:240:5

A whole gateway before emulated engines: four in production, one control and one candidate that is a quarter
slower.  Conversations of one turn come as a Poisson process, whether or not earlier ones were answered.
What `auto` keeps small is what the control owes: the difference of the two time-integrals of requests in
flight since the calibration ended.  So that is what is judged, over all slices of load: within 5 %.  By the
minute it is shown how much is owed, and how far chance alone would move it: one standard deviation of the
share of conversations that a fair coin would give the control.  Last comes the same by the engines' own
count, who know nothing of the gateway's clocks.

Each conversation without a whole answer is told by its cause, and the experiment by what it was, when.
`--stall NAME:AT:FOR` stops a process (SIGSTOP) for so many seconds: supervisor, worker, shadow, analysis,
engine (one of production), control, candidate, or all of these at once.
"""

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import yaml

from analysis.store import LogReader
from bench import figures, procfs
from bench.conversing import Endings, converse
from bench.stage import end_in_order, free_ports, until
from bench.stalls import Stall, stall
from wire.tasks import Tasks

PRODUCTION = 4
_NAME = "matching"
_AIM = 0.05
_LOOKED_S = 2.0
_TOLD = ("experiment", "engine", '"level": "error"', "Traceback")  # of the log's lines those that say so
_LINE = 300
_COUNTED = re.compile(r"^vllm:e2e_request_latency_seconds_sum(?:\{[^}]*\})? (\S+)$", re.M)


def _engine(undo: ExitStack, port: int, seed: int, slow: float = 1.0) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-m", "emulator", "--model", "m", "--port", str(port), "--seed", str(seed)]
    # Of one model, so that arms answer alike; a step takes 20 ms, so that few are many a second.
    process = subprocess.Popen(
        [*argv, "--base-ms", "20", "--slow", str(slow), "--hiccup-rate", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    undo.callback(process.wait)
    undo.callback(process.terminate)
    return process


def _settings(folder: Path, ports: Sequence[int], engines: Sequence[str], arms: Sequence[str]) -> object:
    listed = [{"url": url, "kind": "vllm"} for url in engines]
    control, candidate = ({"engine": url} for url in arms)
    return {
        "listen": f"127.0.0.1:{ports[0]}",
        "admin": f"127.0.0.1:{ports[1]}",
        "state_dir": str(folder / "state"),
        "fleets": [{"model": "m", "engines": listed}],
        "experiments": [
            {
                "name": _NAME,
                "sample": {"rate": "auto"},
                "control": control,
                "candidates": [{"name": "slower", **candidate}],
                "calibration_s": 5,
                "calibration_pairs": 20,
                "max_inflight": 1000,
            }
        ],
    }


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of load: when it ends and its length in s; in flight at one production engine and at the
    control; the share of conversations from then on."""

    at_s: float
    span_s: float
    production: float
    control: float
    share: float


def slices(log: Path) -> list[Slice]:
    """Those since the calibration, from the experiment's log."""
    found, at_s = list[Slice](), 0.0
    reader = LogReader(log)
    try:
        for kind, body in reader:
            if kind == "calibrated":
                found.clear()
            elif kind == "load" and body["production"] is not None:
                at_s += body["span_s"]
                arms = body["arms"]
                found.append(Slice(at_s, body["span_s"], body["production"], arms["control"], body["rate"]))
    finally:
        reader.close()
    return found


def shown(found: Sequence[Slice], rate: float) -> str:
    """What came of each minute and of all; `rate` is of conversations a second."""
    rows, owed = [], 0.0
    minutes = sorted({int(one.at_s // 60) for one in found})
    parts = [
        (f"minute {minute + 1}", [one for one in found if one.at_s // 60 == minute]) for minute in minutes
    ]
    for name, part in [*parts, ("all of these", list(found))]:
        production, control = (
            sum(one.span_s * each for one, each in zip(part, of, strict=True))
            for of in ([one.production for one in part], [one.control for one in part])
        )
        seconds = sum(one.span_s for one in part)
        share = sum(one.span_s * one.share for one in part) / seconds
        chance = sqrt(max(0.0, 1.0 - share) / max(1e-9, share * rate * seconds))
        ratio = control / production if production else float("nan")
        owed = production - control if part == list(found) else owed + production - control
        cells = [f"{production / seconds:.2f}", f"{control / seconds:.2f}", f"{share:.3f}"]
        rows.append([name, f"{seconds:.0f}", *cells, f"{ratio:.3f}", f"± {chance:.3f}", f"{owed:.0f}"])
    held = abs(ratio - 1.0) <= _AIM
    head = ["", "s", "in flight: production", "control", "share", "control / production", "chance", "owed, s"]
    return f"{figures.table(head, rows)}\nwithin {_AIM:.0%}: {'yes' if held else 'no'}"


def _counted_s(ports: Sequence[int]) -> list[float]:
    """What each engine counted itself, in request-seconds, of requests that have ended."""
    counted = []
    for port in ports:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            found = _COUNTED.search(answer.read().decode())
        counted.append(float(found[1]) if found else 0.0)
    return counted


async def _watch(admin: int) -> None:
    """Say what the experiment does, and what paused it, each time that changes."""
    loop, before = asyncio.get_running_loop(), None
    began_s = loop.time()
    while True:
        try:
            now = await asyncio.to_thread(_state, admin)
        except (OSError, ValueError) as error:
            now = f"the admin address says nothing: {type(error).__name__}"
        if (kind := now.partition(":")[0]) != before:
            print(f"{loop.time() - began_s:.0f} s: {now}", flush=True)
        before = kind
        await asyncio.sleep(_LOOKED_S)


def _state(admin: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/api/experiments", timeout=5) as answer:
        (one,) = json.load(answer)["experiments"]
    pause = one.get("paused")
    return f"{one['phase']}" + ("" if pause is None else f", paused ({pause['reason']}): {pause['detail']}")


async def _run(
    port: int, admin: int, given: argparse.Namespace, pids: Callable[[], Mapping[str, Sequence[int]]]
) -> Endings:
    beside, rng = Tasks(), random.Random(given.seed)
    beside.spawn(_watch(admin), name="watch")
    beside.spawn(stall(given.stall, pids), name="stalls")
    try:
        return await converse(port, given.rate, 60.0 * given.minutes, given.tokens, rng)
    finally:
        await beside.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--rate", type=float, default=20.0, help="conversations a second (%(default)s)")
    parser.add_argument("--tokens", type=int, default=25, help="of each answer (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stall", type=Stall.parse, action="append", default=[], metavar="NAME:AT:FOR")
    given = parser.parse_args()
    end_in_order()
    with ExitStack() as undo:
        folder = Path(undo.enter_context(tempfile.TemporaryDirectory()))
        ports = free_ports(PRODUCTION + 4)
        engines = [_engine(undo, port, at) for at, port in enumerate(ports[4:])]
        engines += [_engine(undo, ports[2], 90), _engine(undo, ports[3], 91, slow=1.25)]
        urls = [f"http://127.0.0.1:{port}" for port in [*ports[4:], *ports[2:4]]]
        file = folder / "shadowlane.yaml"
        file.write_text(yaml.safe_dump(_settings(folder, ports[:2], urls[:PRODUCTION], urls[PRODUCTION:])))
        argv = [sys.executable, "-P", "-m", "gateway.cli", "serve", "-c", str(file)]
        tree = str(Path(__file__).parents[1])
        gateway = subprocess.Popen(
            argv,
            env={"PYTHONPATH": tree},
            stdout=subprocess.DEVNULL,
            stderr=undo.enter_context((folder / "errors").open("w")),
        )
        undo.callback(gateway.wait)
        undo.callback(gateway.terminate)
        until(lambda: _is_ready(ports[1]), "the gateway")

        def pids() -> dict[str, list[int]]:
            names = {"engine": engines[0], "control": engines[-2], "candidate": engines[-1]}
            found = {name: [pid] for name, pid in procfs.parts(gateway.pid).items()}
            found |= {name: [process.pid] for name, process in names.items()}
            every = [*procfs.tree(gateway.pid), *(process.pid for process in engines)]
            return found | {"all": every}

        endings = asyncio.run(_run(ports[0], ports[1], given, pids))
        counted = _counted_s([*ports[4:], ports[2]])
        found = slices(folder / "state" / _NAME / "log.msgpack")
        print(*endings.lines(), sep="\n")
        for line in (folder / "errors").read_text().splitlines():
            if any(word in line for word in _TOLD):
                print(f"  log: {line[:_LINE]}")
        if not found:
            raise SystemExit("no slice of load came: ask longer")
        print(shown(found, given.rate))
        mean = sum(counted[:PRODUCTION]) / PRODUCTION
        print(f"by the engines' own count, with the calibration: {counted[-1] / mean:.3f}")


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(json.load(answer))
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    main()
