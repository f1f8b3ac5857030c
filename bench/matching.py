"""Is the control as loaded as one production engine, with `sample.rate: auto`?  By requests in flight.

    python -m bench.matching
    python -m bench.matching --minutes 10 --rate 30

A whole gateway before emulated engines: four in production, one control and one candidate that is a quarter
slower.  Conversations of one turn come as a Poisson process, whether or not earlier ones were answered.  Of
the log's slices of load (5 s each) those of the first minutes are left out, for the share is set in these;
what is shown is the time-integral of requests in flight at the control, divided by that of one production
engine over the same slices: the aim is within 5 %.  Beside it stands how far mere chance of the sample moves
it: one standard deviation of the share of conversations that a fair coin would give the control.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from math import sqrt
from pathlib import Path

import aiohttp
import yaml

from analysis.store import LogReader
from bench import figures
from bench.stage import end_in_order, free_ports, until

PRODUCTION = 4
_NAME = "matching"
_AIM = 0.05
_WORDS = ("river", "stone", "lamp", "cloud", "paper", "glass", "north", "quiet", "green", "seven")


def _engine(undo: ExitStack, port: int, seed: int, slow: float = 1.0) -> str:
    argv = [sys.executable, "-m", "emulator", "--model", "m", "--port", str(port), "--seed", str(seed)]
    # Of one model, so that arms answer alike; a step takes 20 ms, so that few are many a second.
    process = subprocess.Popen(
        [*argv, "--base-ms", "20", "--slow", str(slow), "--hiccup-rate", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    undo.callback(process.wait)
    undo.callback(process.terminate)
    return f"http://127.0.0.1:{port}"


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


async def _asked(port: int, rate: float, seconds: float, tokens: int, rng: random.Random) -> tuple[int, int]:
    """Ask for so long; how many were, and how many had no whole answer."""
    bad = 0
    timeout, connector = aiohttp.ClientTimeout(total=60.0), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:

        async def one(number: int) -> None:
            nonlocal bad
            words = " ".join(rng.choices(_WORDS, k=40))
            message = {"role": "user", "content": f"{number} {words}"}
            body = {"model": "m", "max_tokens": tokens, "stream": True, "messages": [message]}
            url = f"http://127.0.0.1:{port}/v1/chat/completions"
            try:
                async with http.post(url, json=body | {"ignore_eos": True}) as answer:
                    whole = (await answer.read()).rstrip().endswith(b"[DONE]")
                    bad += answer.status != 200 or not whole
            except (aiohttp.ClientError, TimeoutError):
                bad += 1

        loop, tasks, number = asyncio.get_running_loop(), set[asyncio.Task[None]](), 0
        due_s = began_s = loop.time()
        while due_s < began_s + seconds:
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            tasks.add(task := loop.create_task(one(number)))
            task.add_done_callback(tasks.discard)
            number, due_s = number + 1, due_s + rng.expovariate(rate)
        await asyncio.gather(*tasks)
    return number, bad


def slices(log: Path, after_s: float) -> list[tuple[float, float, float, float, float]]:
    """(when it ends, its length, in flight at one production engine, at the control, the share), in s."""
    found, at_s = [], 0.0
    reader = LogReader(log)
    try:
        for kind, body in reader:
            if kind == "load" and body["production"] is not None:
                at_s += body["span_s"]
                if at_s > after_s:
                    arms = body["arms"]
                    found.append((at_s, body["span_s"], body["production"], arms["control"], body["rate"]))
    finally:
        reader.close()
    return found


def shown(found: Sequence[tuple[float, float, float, float, float]], rate: float) -> str:
    """What came of each minute and of all; `rate` is of conversations a second."""
    rows = []
    minutes = sorted({int(at_s // 60) for at_s, *_ in found})
    for name, part in [
        *(
            (f"minute {minute + 1}", [one for one in found if int(one[0] // 60) == minute])
            for minute in minutes
        ),
        ("all of these", list(found)),
    ]:
        production, control = (sum(one[1] * one[at] for one in part) for at in (2, 3))
        seconds = sum(one[1] for one in part)
        share = sum(one[1] * one[4] for one in part) / seconds
        chance = sqrt(max(0.0, 1.0 - share) / max(1e-9, share * rate * seconds))
        ratio = control / production if production else float("nan")
        cells = [f"{production / seconds:.2f}", f"{control / seconds:.2f}", f"{share:.3f}"]
        rows.append([name, *cells, f"{ratio:.3f}", f"± {chance:.3f}"])
    held = abs(ratio - 1.0) <= _AIM
    head = ["", "in flight: production", "control", "share", "control / production", "chance"]
    return f"{figures.table(head, rows)}\nwithin {_AIM:.0%}: {'yes' if held else 'no'}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--settle", type=float, default=6.0, help="minutes left out first (%(default)s)")
    parser.add_argument("--rate", type=float, default=20.0, help="conversations a second (%(default)s)")
    parser.add_argument("--tokens", type=int, default=25, help="of each answer (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    end_in_order()
    with ExitStack() as undo:
        folder = Path(undo.enter_context(tempfile.TemporaryDirectory()))
        ports = free_ports(PRODUCTION + 4)
        production = [_engine(undo, port, at) for at, port in enumerate(ports[4:])]
        arms = [_engine(undo, ports[2], 90), _engine(undo, ports[3], 91, slow=1.25)]
        file = folder / "shadowlane.yaml"
        file.write_text(yaml.safe_dump(_settings(folder, ports[:2], production, arms)))
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
        asking = _asked(ports[0], given.rate, 60.0 * given.minutes, given.tokens, random.Random(given.seed))
        asked, bad = asyncio.run(asking)
        found = slices(folder / "state" / _NAME / "log.msgpack", 60.0 * given.settle)
        print(f"{asked} conversations, {bad} without a whole answer")
        if not found:
            raise SystemExit("no slice of load came after what is left out: ask longer")
        print(shown(found, given.rate))


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(json.load(answer))
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    main()
