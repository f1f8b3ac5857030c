"""Launched engines that take turns are called for, and have copies only while they are ready."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mirror.readiness import Readiness
from mirror.spec import ArmSpec, SlotSpec
from tests.mirror.scripted import engine, tokens
from tests.mirror.staging import Stage, copy_frame, experiment, play, served_frame, shadow


def ready(*arms: ArmSpec) -> bytes:
    return json.dumps({"ready": [["fp8-kv", arm.name, arm.mark] for arm in arms], "fares": []}).encode()


def dropped(stage: Stage) -> int:
    books = stage.serving.comparisons["fp8-kv"].joiner.books()
    return int(books["dropped"].get("arm_not_ready", 0))


def failed(stage: Stage) -> int:
    """How many copies the candidate is said to have failed because it was gone."""
    answers = [answer for pair in stage.analysis.of("pair") for answer in pair["answers"]]
    return sum(a["arm"] == "c1" and a["ending"] == "arm_not_ready" and a["status"] is None for a in answers)


async def comes(holds: Callable[[], bool]) -> None:
    """Wait for something that must come about, a few slots later maybe."""
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


async def feed(lane: asyncio.StreamWriter) -> None:
    for n in range(1_000_000):
        lane.write(copy_frame(f"r{n}", n) + served_frame(f"r{n}"))
        await asyncio.sleep(0.1)


@pytest.mark.parametrize(("slot", "lost"), [("first", dropped), ("second", failed)])
def test_copies_for_an_arm_that_went_away_are_not_sent_to_it_and_a_candidate_has_failed_what_it_was_due(
    tmp_path: Path, slot: str, lost: Callable[[Stage], int]
) -> None:
    called: list[str | None] = []
    readiness = Readiness()

    def call(experiment: str, arm: str | None) -> bool:
        called.append(arm)
        return True

    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as one:
            arms = ArmSpec("control", control.url, mark="a"), ArmSpec("c1", one.url, mark="b")
            told = experiment(*arms, slots=SlotSpec(1.0, ready_s=30), max_inflight=10_000)
            gone, dead = (arms[0], control) if slot == "first" else (arms[1], one)
            async with shadow(tmp_path, told, readiness=readiness, call=call, drain_s=0.2) as stage:
                _, lane = await stage.worker()
                feeding = asyncio.get_running_loop().create_task(feed(lane))
                try:
                    readiness.told(ready(*arms))
                    await comes(lambda: bool(dead.requests))
                    readiness.told(ready(*(arm for arm in arms if arm is not gone)))
                    await comes(lambda: lost(stage) > 1)  # what was sent before has come
                    seen = len(dead.requests)
                    await comes(lambda: lost(stage) > 4)
                    assert len(dead.requests) == seen
                    readiness.told(ready(*arms))
                    await comes(lambda: bool(stage.analysis.of("pair")) and "c1" in called)
                finally:
                    feeding.cancel()
                    lane.close()
            assert set(called) == {"control", "c1"}
            books = stage.books
            assert books["admitted"] == books["paired"] + sum(books["dropped"].values())

    play(run)
