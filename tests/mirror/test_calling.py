"""Launched engines that take turns are called for, and have copies only while they are ready."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirror.readiness import Readiness
from mirror.spec import ArmSpec, SlotSpec
from tests.mirror.scripted import engine, tokens
from tests.mirror.staging import Stage, copy_frame, experiment, play, served_frame, shadow


def ready(*arms: ArmSpec, losses: int = 0) -> bytes:
    named = [["fp8-kv", arm.name, arm.mark] for arm in arms]
    return json.dumps({"ready": named, "forgone": [], "fares": [], "losses": losses}).encode()


def dropped(stage: Stage) -> int:
    books = stage.serving.comparisons["fp8-kv"].joiner.books()
    return int(books["dropped"].get("arm_not_ready", 0))


def live(stage: Stage) -> list[dict[str, dict[str, Any]]]:
    """The answers of each pair, by arm."""
    pairs = (pair for pair in stage.analysis.of("pair") if pair["phase"] == "live")
    return [{answer["arm"]: {**answer, "root": pair["root"]} for answer in pair["answers"]} for pair in pairs]


def failed(stage: Stage, arm: str) -> list[int]:
    """The roots of copies that an arm is said to have failed because it was gone."""
    answers = [pair[arm] for pair in live(stage)]
    return [a["root"] for a in answers if a["ending"] == "arm_not_ready" and a["status"] is None]


async def comes(holds: Callable[[], bool]) -> None:
    """Wait for something that must come about, a few slots later maybe."""
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


async def feed(lane: asyncio.StreamWriter) -> None:
    for n in range(1_000_000):
        lane.write(copy_frame(f"r{n}", n) + served_frame(f"r{n}"))
        await asyncio.sleep(0.1)


async def goes(
    stage: Stage, readiness: Readiness, arms: tuple[ArmSpec, ...], gone: ArmSpec, *, lost: bool
) -> None:
    """All may have copies, but once the one stands it goes; `lost`: with the process that launched it."""
    one, losses = stage.serving.comparisons["fp8-kv"], 0
    while True:
        stands = one.status()["slots"]["standing"] == gone.name
        losses += stands and lost and not readiness.lacking(one.experiment)
        readiness.told(ready(*(arm for arm in arms if not stands or arm is not gone), losses=losses))
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("gone", ["control", "c1"])
@pytest.mark.parametrize("lost", [False, True])
def test_an_arm_that_goes_in_its_turn_fails_what_it_is_due_whichever_it_is_unless_its_launcher_was_lost(
    tmp_path: Path, gone: str, lost: bool
) -> None:
    readiness = Readiness()

    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as one:
            arms = ArmSpec("control", control.url, mark="a"), ArmSpec("c1", one.url, mark="b")
            told = experiment(*arms, slots=SlotSpec(0.5, ready_s=30), max_inflight=10_000)
            dead, other = (arms[0], "c1") if gone == "control" else (arms[1], "control")
            async with shadow(
                tmp_path, told, readiness=readiness, call=lambda *_: True, drain_s=0.2
            ) as stage:
                _, lane = await stage.worker()
                loop = asyncio.get_running_loop()
                going = loop.create_task(goes(stage, readiness, arms, dead, lost=lost))
                feeding = loop.create_task(feed(lane))
                try:
                    await comes(lambda: (dropped(stage) if lost else len(failed(stage, gone))) > 4)
                finally:
                    going.cancel()
                    feeding.cancel()
                    lane.close()
                roots = failed(stage, gone)
                assert bool(roots) != lost and bool(dropped(stage)) == lost
                asked = b"".join(request.body for request in (control if dead is arms[0] else one).requests)
                assert not any(f'hello {root}"'.encode() in asked for root in roots)
                assert all(
                    (pair[other]["status"], pair[other]["ending"]) == (200, "complete")
                    for pair in live(stage)
                )
            books = stage.books
            assert books["admitted"] == books["paired"] + sum(books["dropped"].values())

    play(run)


def test_a_new_process_that_launches_makes_no_failure_of_what_went_before_or_goes_after_it() -> None:
    arms = ArmSpec("control", "http://127.0.0.1:1", mark="a"), ArmSpec("c1", "http://127.0.0.1:2", mark="b")
    readiness, told = Readiness(), experiment(*arms)

    def after(*those: ArmSpec, losses: int) -> list[str]:
        readiness.told(ready(*those, losses=losses))
        return readiness.lost(told)

    assert after(*arms, losses=3) == []
    assert after(arms[0], losses=3) == []  # it went by itself
    assert after(losses=4) == ["control"]  # what had not gone before
    assert after(losses=4) == ["control"]  # and is not there again yet
    assert after(*arms, losses=4) == after(losses=4) == []
