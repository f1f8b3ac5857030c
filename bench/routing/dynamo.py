"""`python -m bench.routing.dynamo --model DIR`: Dynamo's KV router and ours, in front of Dynamo's mocker.

Dynamo: its frontend with `--router-mode kv`, fed by the KV events of a mocker of four workers.  Ours: the
gateway in front of four frontends with one such worker each, since a mocker speaks no HTTP itself: ours pays
for one hop more and is told nothing by events.  DIR holds a tokenizer; the mocker needs no weights.
`DYNAMO_PYTHON` is the interpreter that has `ai-dynamo` and `ai-dynamo-runtime`.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import nan
from pathlib import Path

from bench.proxies import Shadowlane
from bench.routing.http import SPEEDS, Clients, asking, end, show, until_s
from bench.routing.measures import Measures, measure
from bench.routing.rounds import Rounds
from bench.routing.setting import Setting
from bench.routing.traces import drawn
from bench.routing.world import Plan
from bench.stage import Stage, free_ports, staged, until

# A mocker at two fifths of its usual speed computes about so many prompt tokens a second.
SETTING = Setting(engines=4, prefill_tokens_per_s=16_000.0)
_SPEEDUP = "0.4"
_PLANES = ["--discovery-backend", "file", "--request-plane", "tcp", "--event-plane", "zmq"]
# Words that are one token each in most tokenizers.
_WORDS = (
    " self", " return", " import", " None", " True", " False", " name", " value", " string", " object",
    " raise", " class", " list", " path", " file", " type", " data", " error", " line", " key", " text",
    " code", " result", " index", " set", " test", " function", " method", " args", " length",
)  # fmt: skip


class Cluster:
    """Mockers and frontends with a discovery folder of their own."""

    def __init__(self, python: str, model: Path, directory: Path, undo: ExitStack) -> None:
        self._python = python
        self._model = model
        self._directory = directory
        self._undo = undo

    def start(self, workers: int, mode: str) -> int:
        """A mocker of `workers` and a frontend that routes among them; the frontend's port."""
        port = free_ports(1)[0]
        state = self._directory / f"dynamo-{time.monotonic_ns()}"
        engine = [
            "--model-path", str(self._model), "--model-name", "m", "--num-workers", str(workers),
            "--block-size", str(SETTING.block_size), "--speedup-ratio", _SPEEDUP,
            "--num-gpu-blocks-override", str(SETTING.kv_tokens // SETTING.block_size),
            "--max-num-batched-tokens", str(SETTING.batched_tokens),
        ]  # fmt: skip
        self._run("dynamo.mocker", engine, state)
        places = ["--http-host", "127.0.0.1", "--http-port", str(port), "--router-mode", mode]
        self._run("dynamo.frontend", places, state)
        until(lambda: _serves(port), "Dynamo's frontend")
        return port

    def _run(self, module: str, flags: list[str], state: Path) -> None:
        env = {**os.environ, "DYN_FILE_KV": str(state), "HF_HUB_OFFLINE": "1"}
        command = [self._python, "-m", module, *flags, *_PLANES]
        quiet = subprocess.DEVNULL
        self._undo.callback(end, subprocess.Popen(command, env=env, stdout=quiet, stderr=quiet))


@contextmanager
def _served(stage: Stage, python: str, model: Path, directory: Path, who: str) -> Iterator[int]:
    with ExitStack() as undo:
        cluster = Cluster(python, model, directory, undo)
        if who == "dynamo":
            yield cluster.start(SETTING.engines, "kv")
            return
        ports = [cluster.start(1, "round-robin") for _ in range(SETTING.engines)]
        running = stage.start(Shadowlane(who, "prefix_cost").proxy(), ports, pinned=False)
        undo.callback(stage.stop, running)
        yield running.port


def one(stage: Stage, python: str, model: Path, directory: Path, who: str, plan: Plan) -> Measures:
    """One router, one run."""
    with _served(stage, python, model, directory, who) as port:
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        ran = asyncio.run(Clients(url, plan, _WORDS).run())
    return replace(measure(ran), imbalance=nan)  # which worker answered is not told


def _serves(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5) as answer:
            return b'"m"' in answer.read()
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.routing.dynamo", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="a folder with a tokenizer")
    asking(parser, requests=300)
    asked = parser.parse_args()
    python = os.environ.get("DYNAMO_PYTHON")
    if python is None:
        sys.exit("skipped: dynamo (DYNAMO_PYTHON names no interpreter; see bench/README.md)")
    whom = ("shadowlane", "dynamo")
    rounds = Rounds("dynamo", whom, asked.share, range(asked.rounds), asked.json, until_s(asked.most_s))
    with staged() as stage:
        for trace in asked.traces.split(","):
            speed = SPEEDS[trace] * asked.share

            def run(who: str, seed: int, trace: str = trace, speed: float = speed) -> Measures:
                plan = Plan(drawn(trace, seed, SETTING.block_size), speed, asked.requests, SETTING, seed)
                return one(stage, python, asked.model, stage.directory, who, plan)

            where = f"in front of Dynamo's mocker: {SETTING.engines} workers"
            show(trace, where, list(rounds.run(trace, run)))


if __name__ == "__main__":
    main()
