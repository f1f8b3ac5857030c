"""All arms score the control's tokens: with real vLLM, which is the control and the candidate, too."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.measure import measure
from mirror.spec import ArmSpec
from tests.e2e.servers import vllm
from tests.mirror.staging import Stage, copy_frame, experiment, play, served_frame, shadow

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not holds():
            await asyncio.sleep(0.02)


def scored(stage: Stage) -> list[dict[str, Any]]:
    return [pair for pair in stage.analysis.of("pair") if pair.get("scored") and pair["mark"] is None]


async def scores(run_dir: Path, url: str, said: int) -> list[dict[str, Any]]:
    """Pairs that one engine scored in every part, of answers of `said` tokens at temperature 1."""
    arms = [ArmSpec(name, url, kind="vllm", model="tiny") for name in ("control", "c1")]
    trial = experiment(*arms, max_inflight=500, timeout_s=100, first_byte_s=100)
    async with shadow(run_dir, trial, phase="scored") as stage:
        _, lane = await stage.worker()
        number = 0
        while len(scored(stage)) < 3 and not stage.analysis.of("unscored"):
            number += 2
            body = {"model": "llama", "messages": [{"role": "user", "content": f"hello {number}"}]}
            asked = json.dumps({**body, "max_tokens": said, "stream": True, "temperature": 1}).encode()
            lane.write(copy_frame(str(number), number, body=asked) + served_frame(str(number)))
            before = len(stage.analysis.of("pair"))
            await until(lambda: len(stage.analysis.of("pair")) > before)  # noqa: B023
        lane.close()
    assert stage.analysis.of("unscored") == []
    return scored(stage)


def test_vllm_scores_the_tokens_that_it_said_and_finds_itself_where_it_was(tmp_path: Path) -> None:
    async def run(url: str) -> None:
        for pair in await scores(tmp_path, url, said=6):
            record = measure(pair)
            assert len(pair["scored"]) == 6 and [a.fault for a in record.answers] == [None] * 3
            for arm in ("control", "c1"):
                # What batches and caches change is rounding.
                assert 0.0 <= record.outputs[arm]["kl_k3"] < 0.01
                assert 0.0 <= record.outputs[arm]["kl_top"] < 0.01
                assert abs(record.outputs[arm]["logprob_gap"]) < 0.1

    with vllm(tmp_path) as url:
        play(lambda: run(url))
