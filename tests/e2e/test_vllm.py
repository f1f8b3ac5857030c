"""Shadowlane in front of real vLLM on the CPU, and a verdict on a setting that truly matters."""

import asyncio
import json
import random
import re
import time
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.servers import Gateway, shadowlane, vllm

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1200)]

BUSY = re.compile(r"\((harness|dispatch_lag); to mend it")
WORDS = ("alpha", "beta", "gamma", "delta", "token", "prefix", "cache", "route", "model", "answer", "vector")
CACHING = ("--enable-prefix-caching", "--max-num-seqs", "16")


def prompt(rng: random.Random, shared: str) -> str:
    return shared + " ".join(rng.choices(WORDS, k=12))


async def ask(client: openai.AsyncOpenAI, text: str, max_tokens: int) -> str:
    stream = await client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": text}],
        max_tokens=max_tokens,
        temperature=0,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    return "".join([part.choices[0].delta.content or "" async for part in stream if part.choices])


async def traffic(gateway: Gateway, *, per_s: float, seconds: float, shared: str, max_tokens: int) -> int:
    """Send requests at Poisson times, whatever the answers do; gives how many were answered with text."""
    rng = random.Random(7)
    client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0, timeout=120)
    async with client, asyncio.TaskGroup() as group:
        asked = []
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            asked.append(group.create_task(ask(client, prompt(rng, shared), max_tokens)))
            await asyncio.sleep(rng.expovariate(per_s))
    return sum(bool(task.result()) for task in asked)


def ranked(folder: Path, candidate_flags: tuple[str, ...], **load: Any) -> dict[str, Any]:
    """Shadow a candidate beside a control with production's settings; gives the candidate's verdicts."""
    with (
        vllm(folder, *CACHING) as engine,
        vllm(folder, *CACHING) as control,
        vllm(folder, *candidate_flags) as candidate,
        shadowlane(folder, "-c", str(settings(folder, engine, control, candidate))) as gateway,
    ):
        answered = asyncio.run(traffic(gateway, **load))
        assert answered > 50
        time.sleep(3)
        ranking = gateway.ranking()
    (folder / "ranking.json").write_text(repr(ranking))
    [found] = ranking["candidates"]
    verdicts: dict[str, Any] = found["verdicts"]
    print(verdicts, ranking["checks"], ranking["books"])
    return verdicts


def settings(folder: Path, engine: str, control: str, candidate: str) -> Path:
    """A configuration that no load of this machine pauses: three engines here make production slow, too."""
    experiment = {
        "name": "trial",
        "sample": {"rate": 1},
        "control": {"engine": control},
        "candidates": [{"name": "tried", "engine": candidate}],
        "brakes": {"slowdown": None},
    }
    written = folder / "shadowlane.yaml"
    written.write_text(json.dumps({"fleets": [{"engines": [engine]}], "experiments": [experiment]}))
    return written


def is_slower(verdict: dict[str, Any]) -> bool:
    """Certainly slower; the word itself may be withheld where three engines leave the shadow no processor."""
    named = verdict["label"] == "SLOWER" or BUSY.search(verdict["withheld"] or "") is not None
    return named and verdict["lower"] > 1.0


def test_turning_prefix_caching_off_is_found_slower_to_the_first_token(tmp_path: Path) -> None:
    shared = " ".join(random.Random(1).choices(WORDS, k=900)) + " "
    off = ("--no-enable-prefix-caching", "--max-num-seqs", "16")
    verdicts = ranked(tmp_path, off, per_s=4.0, seconds=240.0, shared=shared, max_tokens=8)
    assert is_slower(verdicts["ttft"])


def test_one_sequence_at_a_time_is_found_slower_under_concurrency(tmp_path: Path) -> None:
    one = ("--enable-prefix-caching", "--max-num-seqs", "1")
    verdicts = ranked(tmp_path, one, per_s=5.0, seconds=240.0, shared="", max_tokens=48)
    assert is_slower(verdicts["ttft"])
