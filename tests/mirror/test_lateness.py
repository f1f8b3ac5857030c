"""How late the shadow process is, by its own timers."""

import asyncio
import time
from pathlib import Path
from typing import Any

from mirror.lateness import EVERY_S, LATE_NS, Lateness
from mirror.spec import ArmSpec
from tests.mirror.scripted import engine, hang
from tests.mirror.staging import copy_frame, experiment, play, shadow, until
from wire.tasks import Tasks


def test_late_timers_and_the_worst_are_counted_until_they_are_taken() -> None:
    lateness = Lateness()
    for late_ns in (0, LATE_NS - 1, LATE_NS, 3 * LATE_NS):
        lateness.add(late_ns)
    assert lateness.take() == {"timers": 4, "late": 2, "worst_ms": 3 * LATE_NS / 1e6}
    assert lateness.take() == {"timers": 0, "late": 0, "worst_ms": 0.0}


def test_a_process_that_is_held_up_is_late_by_as_much() -> None:
    lateness = Lateness()

    async def held_up() -> dict[str, Any]:
        watching = Tasks().spawn(lateness.watch(lambda: True), name="lateness")
        while not lateness.timers:
            await asyncio.sleep(EVERY_S)
        lateness.take()
        hold_s = EVERY_S + 4 * LATE_NS / 1e9
        asyncio.get_running_loop().call_soon(time.sleep, hold_s)  # nothing runs meanwhile, the timer neither
        while lateness.timers < 2:  # the first may have been due before
            await asyncio.sleep(EVERY_S)
        watching.cancel()
        return lateness.take()

    said = asyncio.run(held_up())
    assert said["late"] >= 1 and said["worst_ms"] >= 3 * LATE_NS / 1e6


def test_timers_count_while_there_is_something_to_write_down_and_only_then() -> None:
    lateness = Lateness()
    asked: list[bool] = []

    def is_busy() -> bool:
        asked.append(len(asked) in (4, 8))  # when the third timer is set, and when the fifth fires
        return asked[-1]

    async def watched() -> int:
        watching = Tasks().spawn(lateness.watch(is_busy), name="lateness")
        while len(asked) < 20:
            await asyncio.sleep(EVERY_S)
        watching.cancel()
        return lateness.timers

    assert asyncio.run(watched()) == 2


def test_the_analysis_is_told_how_late_the_shadow_was(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(hang) as control:
            told = experiment(ArmSpec("control", control.url))
            async with shadow(tmp_path, told, drain_s=0.0) as stage:
                _, lane = await stage.worker()
                lane.write(copy_frame("a", 8))  # it stays under way: the engine never answers
                await until(lambda: bool(stage.analysis.of("late")))
                lane.close()
                said = stage.analysis.of("late")[0]
            assert said["experiment"] == told.name
            assert said["timers"] > 0 and 0 <= said["late"] <= said["timers"] and said["worst_ms"] >= 0.0

    play(run)
