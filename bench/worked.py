"""What is said of real engines, from the first request to the last line?

    make test-engines ENGINES=vllm PYTEST_ARGS=--collect-only      # installs vLLM into .engines
    python -m bench.worked --out worked

vLLM on the CPU, with a tiny model, is held against three candidates, one after the other, which Shadowlane
starts itself: the same engine; one that keeps no prefix cache and reads a prompt in steps of 128 tokens, a
known handicap; and one that computes in float32 instead of bfloat16, which answers otherwise.  Traffic is
written to a file and sent by `shadowlane replay` through `shadowlane serve`; what `rank`, `report` and `diff`
say of it is printed and kept.  Production is an emulated engine: it is not compared, and the processors are
the arms'.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from bench.stage import end_in_order, free_ports, until
from workload.prompts import Lognormal, Shape, conversations, system_prompts
from workload.row import Row, to_line

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "tests/e2e/tiny-llama"
ANSWER_TOKENS = 36
PROMPTS = Shape(system_bytes=(4_000, 4_500), turns=1, most_turns=1, user_words=Lognormal(24, 0.9, 4, 100))
VLLM = (
    "-m", "vllm.entrypoints.openai.api_server", "--model", str(MODEL), "--served-model-name", "{model}",
    "--host", "{host}", "--port", "{port}", "--enforce-eager", "--max-model-len", "2048",
    "--block-size", "32", "--max-num-seqs", "16", "--enable-prompt-tokens-details",
)  # fmt: skip
ENV = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "TORCHDYNAMO_DISABLE": "1",
}
CANDIDATES: Mapping[str, Sequence[str]] = {
    "same": (),
    "slow-prefill": ("--no-enable-prefix-caching", "--max-num-batched-tokens", "128"),
    "float32": ("--dtype", "float32"),
}


def traffic(requests: int, per_s: float, seed: int) -> Iterator[Row]:
    """Requests at Poisson times: one of four long system prompts and a question, at temperature 0."""
    rng, at_s = Random(seed), 0.0
    asked = conversations(rng, PROMPTS, system_prompts(rng, PROMPTS))
    for n, talk in zip(range(requests), asked, strict=False):
        at_s += rng.expovariate(per_s)
        said = [("system", talk.system), ("user", talk.turns[0].user)]
        messages = [{"role": role, "content": text} for role, text in said]
        yield Row(
            timestamp=round(1000 * at_s, 3),
            input_length=sum(len(text) for _, text in said) // 3,
            output_length=ANSWER_TOKENS,
            id=f"r{n}",
            request={"messages": messages, "temperature": 0},
        )


def configuration(given: argparse.Namespace, candidate: str, ports: Sequence[int]) -> dict[str, Any]:
    """What `shadowlane serve -c` reads.  JSON is YAML, too."""
    serves, admin, production = ports

    def arm(flags: Sequence[str]) -> dict[str, Any]:
        python = str(given.engines.absolute() / "vllm/bin/python")
        return {"launch": {"command": [python, *VLLM, *flags], "env": ENV}, "gpus": 0}

    return {
        "listen": f"127.0.0.1:{serves}",
        "admin": f"127.0.0.1:{admin}",
        "state_dir": str(given.out.absolute() / "state"),
        "fleets": [{"model": "tiny", "engines": [f"http://127.0.0.1:{production}"]}],
        "experiments": [
            {
                "name": candidate,
                "sample": {"rate": 1},
                "margin": given.margin,
                "brakes": {"slowdown": None},  # the arms take production's processors here, and may
                "control": arm(()),
                "candidates": [{"name": candidate, **arm(CANDIDATES[candidate])}],
            }
        ],
    }


def shadowlane(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "gateway.cli", *words]


@contextmanager
def running(words: Sequence[str], log: Path) -> Iterator[None]:
    """A process until the block ends."""
    with log.open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=_env())
    try:
        yield
    finally:
        process.terminate()
        process.wait(120)


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def told(url: str) -> Any:
    """What the admin address answers; None where it does not yet."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)
    except (OSError, ValueError, http.client.HTTPException):
        return None


def is_ready(admin: str) -> bool:
    """Whether both arms' engines serve and the shadow hears the workers."""
    status = told(admin + "/api/status") or {}
    states = [one["state"] for one in (status.get("launched") or {}).get("engines", [])]
    return states == ["ready", "ready"] and told(admin + "/readyz") is not None


def is_settled(admin: str, candidate: str) -> bool:
    """Whether each copy is in the books as paired or dropped."""
    books = (told(f"{admin}/api/experiments/{candidate}") or {}).get("books") or {}
    return bool(books) and books["admitted"] == books["paired"] + sum(books["dropped"].values())


def compare(given: argparse.Namespace, candidate: str) -> None:
    """One candidate: started, sent the traffic, judged; what is said of it is kept in `given.out`."""
    serves, admin_port, production = free_ports(3)
    admin, out = f"http://127.0.0.1:{admin_port}", given.out
    rows = traffic(given.requests, given.per_s, given.seed)
    (out / "traffic.jsonl").write_bytes(b"".join(map(to_line, rows)))
    file = out / f"{candidate}.yaml"
    file.write_text(json.dumps(configuration(given, candidate, (serves, admin_port, production)), indent=1))
    engine = shadowlane("emulate", "--model", "tiny", "--port", str(production))
    with (
        running(engine, out / "production.log"),
        running(shadowlane("serve", "-c", str(file)), out / f"{candidate}.log"),
    ):
        until(lambda: is_ready(admin), "the arms' engines", 900)
        url = f"http://127.0.0.1:{serves}"
        said("replay", str(out / "traffic.jsonl"), "--to", url, "--model", "tiny", "--ignore-eos")
        until(lambda: is_settled(admin, candidate), "the last copies", 300)
    for what, *flags in (("rank",), ("report",), ("report", "--json"), ("diff",)):
        text = said(what, candidate, *flags, "--state-dir", str(out / "state"))
        (out / f"{candidate}.{what}.{'json' if flags else 'txt'}").write_text(text)


def said(*words: str) -> str:
    """What a command of Shadowlane says; it is shown, too."""
    print("$ shadowlane", *words, flush=True)
    done = subprocess.run(shadowlane(*words), env=_env(), capture_output=True, text=True, check=False)
    print(*(("(kept)",) if "--json" in words else (done.stdout, done.stderr)), flush=True)
    return done.stdout


def parsed(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.worked", description=__doc__)
    parser.add_argument("--engines", type=Path, default=ROOT / ".engines", help="where vLLM is installed")
    parser.add_argument("--out", type=Path, default=Path("worked"), help="a folder for all that is written")
    parser.add_argument("--only", choices=CANDIDATES, action="append", help="this candidate; repeatable")
    parser.add_argument("--requests", type=int, default=800)
    parser.add_argument("--per-s", type=float, default=2.5, help="requests a second")
    parser.add_argument("--margin", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(argv)


def main() -> None:
    given = parsed()
    end_in_order()
    given.out.mkdir(parents=True, exist_ok=True)
    for candidate in given.only or CANDIDATES:
        compare(given, candidate)


if __name__ == "__main__":
    main()
