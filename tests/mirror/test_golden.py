"""Golden requests among the copies: every so many, each once, to all arms at one moment, and no user's."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

from mirror.spec import ArmSpec, GoldenItem, GoldenSpec
from tests.mirror.scripted import engine, tokens
from tests.mirror.staging import copy_frame, experiment, phase_frame, play, served_frame, shadow, until

ITEMS = tuple(
    GoldenItem(f"set/{n}", json.dumps({"messages": [f"q{n}"], "max_tokens": 9}).encode(), b'{"kind":"x"}')
    for n in range(2)
)


def test_one_follows_every_so_many_copies_once_the_trial_has_begun_until_all_were_asked(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as fast:
            arms = ArmSpec("control", control.url), ArmSpec("fp8", fast.url, model="other")
            told = replace(experiment(*arms), golden=GoldenSpec(3, ITEMS), models=("llama",))
            async with shadow(tmp_path, told) as stage:
                _, lane = await stage.worker()
                stage.analysis.tell(phase_frame("fp8-kv", "calibration"))
                await until(lambda: stage.serving.comparisons["fp8-kv"].phase.name == "calibration")
                for n in range(4):
                    lane.write(copy_frame(f"c{n}", 2 * n) + served_frame(f"c{n}"))
                await until(lambda: len(stage.analysis.of("pair")) == 4)
                stage.analysis.tell(phase_frame("fp8-kv", "live"))
                await until(lambda: stage.serving.comparisons["fp8-kv"].phase.name == "live")
                for n in range(100, 112):
                    lane.write(copy_frame(f"a{n}", n) + served_frame(f"a{n}"))
                    await asyncio.sleep(0)
                await until(lambda: len(stage.analysis.of("pair")) == 4 + 12 + 2)
                lane.close()
            golden = [pair for pair in stage.analysis.of("pair") if pair["golden"] is not None]
            assert [pair["golden"] for pair in golden] == [
                {"id": item.id, "check": item.check} for item in ITEMS
            ]
            for pair in golden:
                assert (pair["mark"], pair["phase"], pair["production"]) == ("golden", "live", None)
                assert {answer["arm"] for answer in pair["answers"]} == {"control", "fp8"}
            assert stage.books["admitted"] == stage.books["paired"] == 18
            for one, model in ((control, "llama"), (fast, "other")):
                asked = [json.loads(request.body) for request in one.requests]
                [first, second] = [body for body in asked if body["messages"][0] in ("q0", "q1")]
                assert first["model"] == second["model"] == model
                assert (first["temperature"], first["max_tokens"], first["stream"]) == (0, 9, True)

    play(run)


def test_without_golden_requests_none_is_asked(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as fast:
            told = experiment(ArmSpec("control", control.url), ArmSpec("fp8", fast.url))
            async with shadow(tmp_path, told) as stage:
                _, lane = await stage.worker()
                for n in range(6):
                    lane.write(copy_frame(f"a{n}", n) + served_frame(f"a{n}"))
                await until(lambda: len(stage.analysis.of("pair")) == 6)
                lane.close()
            assert len(control.requests) == len(fast.requests) == 6
            assert all(pair["golden"] is None for pair in stage.analysis.of("pair"))

    play(run)
