"""Engines that take turns on one spare GPU: each is started for its slot, once the one before has ended."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.test_replay_whole import recording, slots
from tests.gateway.whole import Whole, begin, serving, with_engines
from tests.launch.nvml import Card, machine
from tests.launch.staging import EMULATOR, arm, experiment, gone, launched, lives, settings, until
from tests.support import FINISH, TOKEN, Engine, ask, post, streams

# A slot brings a whole engine to life; on a machine that is loaded tenfold that takes tenfold.
pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]
PATIENCE_S = 240.0


def production() -> Engine:
    return Engine(streams(TOKEN, FINISH))


def in_turn(control: dict[str, Any], *candidates: dict[str, Any], **more: Any) -> dict[str, Any]:
    short = {"calibration_s": 0, "calibration_pairs": 2, "warm_up_s": 0}
    turns = {"slot_s": 0.6, "ready_s": 60}
    return experiment(control, *candidates, **{"mode": "switchback", "turns": turns, **short, **more})


async def ranking(whole: Whole) -> dict[str, Any]:
    async with whole.http.get(f"{whole.admin}/api/experiments/t") as answer:
        found: dict[str, Any] = await answer.json(content_type=None)
        return found


async def live(whole: Whole, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Wait until it holds of what the shadow process tells of turns; then it, with what engines there are."""
    seen: dict[str, Any] = {}
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (seen and holds(seen)):
                await asyncio.sleep(0.1)
                seen = await slots(whole)
    except TimeoutError:
        told = json.dumps([seen, await launched(whole), await ranking(whole)], indent=1)
        raise AssertionError(f"{told}\n{whole.log}") from None
    return seen


@asynccontextmanager
async def asking(whole: Whole) -> Any:
    """Conversations that begin all the time."""

    async def go_on() -> None:
        for n in range(1_000_000):
            body = {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": f"talk {n}"}]}
            await ask(whole.port, post(json.dumps(body).encode()))
            await asyncio.sleep(0.05)

    task = asyncio.get_running_loop().create_task(go_on())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def alone(whole: Whole, until_ends: "asyncio.Event") -> int:
    """Look all the while: how often an engine was seen; never two of them at once."""
    seen = 0
    while not until_ends.is_set():
        running = [one["pid"] for one in (await launched(whole)).values() if one["pid"] is not None]
        there = [pid for pid in running if lives(pid)]
        assert len(there) <= 1, await launched(whole)
        seen += len(there)
        await asyncio.sleep(0.05)
    return seen


async def free(uuid: str) -> None:
    """Wait until no Shadowlane holds this GPU against others."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as claim:
                try:
                    claim.bind(f"\0shadowlane-gpu-{uuid}")
                except OSError:
                    await asyncio.sleep(0.1)
                else:
                    return


def test_each_arm_is_started_for_its_slot_on_the_one_gpu_that_is_spare_once_the_one_before_has_ended(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        there = machine(tmp_path, Card("GPU-p"), Card("GPU-spare"))
        arms = [{**arm(command), "gpus": 1} for command in (EMULATOR, EMULATOR, f"{EMULATOR} --slow 2")]
        told = settings(engine, in_turn(*arms), gpus=["GPU-p"])
        async with serving(tmp_path, told, there.env) as whole, asking(whole):
            over = asyncio.Event()
            looking = asyncio.get_running_loop().create_task(alone(whole, over))
            # each has had a slot: the control before every candidate
            await live(whole, lambda seen: seen["turns"] >= 3)
            over.set()
            assert await looking > 0
            fared = await launched(whole)
            assert (
                fared["control"]["starts"] >= 3 and fared["c0"]["starts"] >= 1 and fared["c1"]["starts"] >= 1
            )
            assert {one["deaths"] for one in fared.values()} == {0}
            states = sorted(one["state"] for one in fared.values())
            assert states.count("resting") >= 2
            assert {gpu for one in fared.values() for gpu in one["gpus"]} <= {"GPU-spare"}
            found = await ranking(whole)
            assert found["phase"] == "live" and all(one["n"] for one in found["candidates"])
        await gone(*(one["pid"] for one in fared.values() if one["pid"] is not None))

    with_engines(test)


def test_a_recording_is_replayed_on_engines_that_are_started_in_turn_and_then_the_gpu_is_free(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        there = machine(tmp_path, Card(uuid := f"GPU-replayed-{os.getpid()}"))
        replay = {"files": str(recording(tmp_path)), "requests": 12}
        arms: list[dict[str, Any]] = [{**arm(), "gpus": 1} for _ in range(3)]
        told = settings(engine, in_turn(*arms, mode="replay", replay=replay))
        async with serving(tmp_path, told, there.env) as whole:
            seen = await live(whole, lambda seen: seen["over"])
            assert seen["turns"] == seen["replay"]["turns"] == 2 * seen["replay"]["pieces"]
            fared = await until(whole, lambda all: {one["state"] for one in all.values()} == {"resting"})
            assert all(one["pid"] is None for one in fared.values())
            await free(uuid)
            found = await ranking(whole)
            assert found["books"]["paired"] >= 24 and not found["books"]["dropped"].get("arm_not_ready")

    with_engines(test)


def test_an_experiment_that_is_taken_out_while_it_runs_leaves_its_gpu(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        there = machine(tmp_path, Card(uuid := f"GPU-taken-out-{os.getpid()}"))
        arms = [{**arm(), "gpus": 1} for _ in range(2)]
        turns = {"slot_s": 1000, "ready_s": 60}
        # another experiment goes on, so that the launching process does
        other: dict[str, Any] = {**experiment(arm(), arm()), "name": "other"}
        told = settings(engine, in_turn(*arms, turns=turns), other)
        async with serving(tmp_path, told, there.env) as whole:
            fared = await until(whole, lambda all: all["control"]["pid"] is not None)
            whole.write(experiments=[other])
            assert (await whole.reload())[0] == 200
            await gone(fared["control"]["pid"])
            await free(uuid)

    with_engines(test)


def test_a_candidate_that_cannot_be_started_costs_its_slots_and_says_why_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        bad = arm(["sh", "-c", "echo no such option {port}; exit 2"], restarts=0)
        async with serving(tmp_path, settings(engine, in_turn(arm(), bad, arm()))) as whole, asking(whole):
            seen = await live(whole, lambda seen: seen["turns"] >= 2 and "c0" in seen["troubles"])
            assert seen["troubles"] == {"c0": "given up: it exited with status 2"}
            async with asyncio.timeout(PATIENCE_S):
                while not (found := await ranking(whole))["candidates"][0]["n"]:
                    await asyncio.sleep(0.2)
            assert found["candidates"][0]["name"] == "c1" and found["books"]["dropped"]["arm_not_ready"] > 0

    with_engines(test)


def test_an_engine_that_dies_in_its_slot_costs_what_was_under_way_and_comes_again(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        turns = {"slot_s": 1000, "ready_s": 60}
        told = settings(engine, in_turn(arm(), arm(), turns=turns))
        async with serving(tmp_path, told) as whole, asking(whole):
            await live(whole, lambda seen: seen["standing"] == "control")
            first = (await launched(whole))["control"]["pid"]
            os.kill(first, signal.SIGKILL)
            fared = await until(whole, lambda all: all["control"]["deaths"] == 1)
            async with asyncio.timeout(PATIENCE_S):
                while not (await ranking(whole)).get("books", {}).get("dropped", {}).get("arm_not_ready"):
                    await asyncio.sleep(0.1)
            fared = await until(whole, lambda all: all["control"]["state"] == "ready")
            assert fared["control"]["pid"] != first and fared["c0"]["state"] == "resting"

    with_engines(test)


@pytest.mark.parametrize("child", ["_shadow", "_launch"])
def test_after_either_process_is_killed_arms_take_turns_again_and_none_is_left_over(
    tmp_path: Path, child: str
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        async with serving(tmp_path, settings(engine, in_turn(arm(), arm()))) as whole, asking(whole):
            await live(whole, lambda seen: seen["turns"] >= 1)
            before = whole.children()[child]
            pids = [one["pid"] for one in (await launched(whole)).values() if one["pid"] is not None]
            os.kill(before, signal.SIGKILL)
            if child == "_launch":
                await gone(*pids)
            async with asyncio.timeout(PATIENCE_S):
                while whole.children().get(child) in (None, before):
                    await asyncio.sleep(0.1)
            blocks = (await slots(whole))["blocks"]
            await live(whole, lambda seen: seen["blocks"] > blocks + 1 and seen["standing"])
            paired = (await ranking(whole))["books"]["paired"]
            async with asyncio.timeout(PATIENCE_S):
                while (await ranking(whole))["books"]["paired"] <= paired:
                    await asyncio.sleep(0.2)

    with_engines(test)
