"""All arms decode the control's tokens: with real vLLM's trace replay, and with one started without it."""

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

SCALE_OUT = ("--enable-scale-out", "--max-model-len", "512", "--max-num-seqs", "4")


async def until(holds: Callable[[], bool]) -> None:
    """Interpreted kernels give a few tokens a second."""
    async with asyncio.timeout(240):
        while not holds():
            await asyncio.sleep(0.05)


def arms(url: str) -> list[ArmSpec]:
    """Two arms that are one engine: what one decodes by force the other would have decoded anyhow."""
    return [ArmSpec(name, url, kind="vllm", model="tiny") for name in ("control", "c1")]


class Feeding:
    """Copies, one after the other, each of another conversation."""

    def __init__(self, stage: Stage, lane: asyncio.StreamWriter) -> None:
        self._stage = stage
        self._lane = lane
        self._sent = 0

    async def one(self) -> None:
        self._sent += 1
        body = {"model": "llama", "messages": [{"role": "user", "content": f"hello {self._sent}"}]}
        asked = json.dumps({**body, "max_tokens": 5, "stream": True, "temperature": 0}).encode()
        id = str(self._sent)
        self._lane.write(copy_frame(id, 2 * self._sent, body=asked) + served_frame(id))
        before = len(self._stage.analysis.of("pair"))
        await until(lambda: len(self._stage.analysis.of("pair")) > before)


def forced(stage: Stage) -> list[dict[str, Any]]:
    return [pair for pair in stage.analysis.of("pair") if pair["mark"] is None]


def test_arms_decode_the_tokens_that_the_control_said(tmp_path: Path) -> None:
    async def run(url: str) -> None:
        trial = experiment(*arms(url), max_inflight=500, timeout_s=200, first_byte_s=200)
        async with shadow(tmp_path, trial, phase="forced") as stage:
            _, lane = await stage.worker()
            feeding = Feeding(stage, lane)
            for _ in range(30):  # the first come while it is asked who can
                await feeding.one()
                if len(forced(stage)) >= 2 or stage.analysis.of("unforced"):
                    break
            lane.close()
        assert stage.analysis.of("unforced") == []
        sources = {p["id"]: measure(p) for p in stage.analysis.of("pair") if p["mark"] == "forced_source"}
        assert len(forced(stage)) >= 2
        for pair in forced(stage):
            record = measure(pair)
            assert [answer.forced for answer in record.answers] == [True, True]
            said = sources[str(pair["id"]).partition("~")[0]].answer("control")
            assert said is not None and said.completion_tokens == 5
            for answer in record.answers:
                assert answer.fault is None and answer.completion_tokens == 5
                assert answer.ttft_ms is not None and answer.tpot_ms is not None
            assert record.outputs["c1"]["exact_match"] == 1.0

    with vllm(tmp_path, *SCALE_OUT, "--enable-trace-replay", interpreted=True) as url:
        play(lambda: run(url))


@pytest.mark.parametrize(
    ("flags", "status"), [(SCALE_OUT, 400), ((), 403)], ids=["no_replay", "no_scale_out"]
)
def test_vllm_that_was_not_started_for_it_is_found_out(
    tmp_path: Path, flags: tuple[str, ...], status: int
) -> None:
    async def run(url: str) -> None:
        async with shadow(tmp_path, experiment(*arms(url)), phase="forced") as stage:
            await until(lambda: bool(stage.analysis.of("unforced")))
            _, lane = await stage.worker()
            await Feeding(stage, lane).one()
            lane.close()
        why = stage.analysis.of("unforced")[0]["why"]
        assert why == f"control does not decode tokens it is given (status {status})"
        assert forced(stage) == []

    with vllm(tmp_path, *flags) as url:
        play(lambda: run(url))
