"""Engines that take turns on one spare GPU: each is started for its slot, once the one before has ended."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.test_replay_whole import A_PIECE, SLOT_S, recording, slots
from tests.gateway.whole import Whole, begin, serving, with_engines
from tests.launch.nvml import Card, machine
from tests.launch.staging import EMULATOR, arm, experiment, gone, launched, settings, until
from tests.support import FINISH, TOKEN, Engine, ask, post, streams

# A slot brings a whole engine to life; on a machine that is loaded tenfold that takes tenfold.
pytestmark = pytest.mark.timeout(400)
PATIENCE_S = 240.0

# Ends at once where another that holds the same file lives.
HOLDING = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
os.set_inheritable(file, True)
fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
os.execv(sys.argv[2], sys.argv[2:])
"""


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
    """Conversations that begin all the time, each answered, whatever becomes of the arms."""

    async def go_on() -> None:
        for n in range(1_000_000):
            body = {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": f"talk {n}"}]}
            assert (await ask(whole.port, post(json.dumps(body).encode()), PATIENCE_S)).status == 200
            await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(go_on())
        yield
        task.cancel()


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


async def paired(whole: Whole, n: int) -> dict[str, Any]:
    """The ranking once so many pairs are in the books, and some of every candidate that is ranked."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await ranking(whole)
            candidates = found.get("candidates")
            if candidates and all(one["n"] for one in candidates) and found["books"]["paired"] >= n:
                return found
            await asyncio.sleep(0.2)


def running(fared: dict[str, dict[str, Any]]) -> list[int]:
    return [one["pid"] for one in fared.values() if one["pid"] is not None]


def test_the_one_gpu_that_is_spare_has_one_engine_at_a_time_in_a_replay_and_live_and_is_free_after_both(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        there = machine(tmp_path, Card("GPU-p"), Card(uuid := f"GPU-spare-{os.getpid()}"))
        alone = [sys.executable, "-S", "-c", HOLDING, str(tmp_path / "engine"), *EMULATOR.split()]
        arms = [{**arm(command), "gpus": 1} for command in (alone, alone, [*alone, "--slow", "2"])]
        replay = {"files": str(recording(tmp_path)), "requests": 2 * A_PIECE}
        told = settings(
            engine,
            in_turn(*arms, mode="replay", replay=replay, turns={"slot_s": SLOT_S, "ready_s": 60}),
            gpus=["GPU-p"],
        )
        async with serving(tmp_path, told, there.env) as whole:
            seen = await live(whole, lambda seen: seen["over"])
            assert seen["turns"] == seen["replay"]["turns"] == 2 * seen["replay"]["pieces"] == 4
            fared = await until(whole, lambda all: {one["state"] for one in all.values()} == {"resting"})
            assert not running(fared) and {one["deaths"] for one in fared.values()} == {0}
            await free(uuid)
            found = await paired(whole, 4 * A_PIECE)
            assert not found["books"]["dropped"].get("arm_not_ready")

            whole.write(experiments=[in_turn(*arms)])
            assert (await whole.reload())[0] == 200
            async with asking(whole):
                # each has had a slot: the control before every candidate
                await live(whole, lambda seen: not seen["over"] and seen["turns"] >= 2)
                assert (await paired(whole, 1))["phase"] == "live"
                fared = await until(whole, running)
            starts = {name: one["starts"] for name, one in fared.items()}
            assert starts["control"] >= 2 and starts["c0"] >= 1 and starts["c1"] >= 1
            assert {one["deaths"] for one in fared.values()} == {0}
            assert [one["state"] for one in fared.values()].count("resting") >= 2
            assert {gpu for one in fared.values() for gpu in one["gpus"]} <= {uuid}

            # another experiment goes on, and with it the process that starts engines
            launching, asleep = whole.children()["_launch"], arm(["sleep", "{port}"])
            whole.write(experiments=[{**experiment(asleep, asleep), "name": "other"}])
            assert (await whole.reload())[0] == 200
            await gone(*running(fared))
            await free(uuid)
            assert whole.children()["_launch"] == launching

    with_engines(test)


def test_an_engine_that_dies_comes_again_and_one_that_never_starts_costs_its_slots_and_says_why(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        turns = {"slot_s": 1000, "ready_s": 60}
        told = settings(engine, in_turn(arm(), arm(), turns=turns))
        async with serving(tmp_path, told) as whole, asking(whole):
            await live(whole, lambda seen: seen["standing"] == "control")
            first = (await launched(whole))["control"]["pid"]
            os.kill(first, signal.SIGKILL)
            await until(whole, lambda all: all["control"]["deaths"] == 1)
            fared = await until(whole, lambda all: all["control"]["state"] == "ready")
            assert fared["control"]["pid"] != first and fared["c0"]["state"] == "resting"

            bad = arm(["sh", "-c", "echo no such option {port}; exit 2"], restarts=0)
            whole.write(experiments=[in_turn(arm(), bad, arm())])
            assert (await whole.reload())[0] == 200
            seen = await live(whole, lambda seen: seen["turns"] >= 2 and "c0" in seen["troubles"])
            assert seen["troubles"] == {"c0": "given up: it exited with status 2"}
            async with asyncio.timeout(PATIENCE_S):
                while not (found := await ranking(whole))["candidates"][0]["n"]:
                    await asyncio.sleep(0.2)
            assert found["candidates"][0]["name"] == "c1" and found["books"]["dropped"]["arm_not_ready"] > 0

    with_engines(test)


def goes_on(blocks: int, seen: dict[str, Any]) -> bool:
    """Whether an arm stands, and a whole block and more came after so many."""
    return bool(seen["blocks"] > blocks + 1 and seen["standing"])


def test_after_either_process_is_killed_arms_take_turns_again_and_none_is_left_over(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        async with serving(tmp_path, settings(engine, in_turn(arm(), arm()))) as whole, asking(whole):
            await live(whole, lambda seen: seen["turns"] >= 1)
            for child in ("_shadow", "_launch"):
                before, pids = whole.children()[child], running(await launched(whole))
                os.kill(before, signal.SIGKILL)
                if child == "_launch":
                    await gone(*pids)
                async with asyncio.timeout(PATIENCE_S):
                    while whole.children().get(child) in (None, before):
                        await asyncio.sleep(0.1)
                blocks = (await slots(whole)).get("blocks", 0)
                await live(whole, partial(goes_on, blocks))
                books = (await ranking(whole))["books"]
                await paired(whole, books["paired"] + 1)

    with_engines(test)
