"""A whole gateway races two candidates: the slow one leaves, `rank` says why, and a restart keeps it out."""

import asyncio
import json
import os
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.programs import shadowlane
from tests.gateway.test_replay_whole import BUSY, emulated, ranking
from tests.gateway.whole import ROOT, Whole, serving, with_engines
from tests.support import ask, post

# It waits for hundreds of answers: on a machine that is loaded tenfold that takes minutes.
pytestmark = pytest.mark.timeout(400)
PATIENCE_S = 300.0

TOGETHER = 4
ENOUGH = 800  # pairs: over twice as many as it takes where all is judged


def talk(n: int) -> bytes:
    message = {"role": "user", "content": f"talk {n}"}
    return post(json.dumps({"model": "m", "stream": True, "max_tokens": 8, "messages": [message]}).encode())


async def asked(whole: Whole, numbers: "count[int]") -> None:
    """A few conversations of one turn; production answers them all."""
    answers = await asyncio.gather(*(ask(whole.port, talk(next(numbers))) for _ in range(TOGETHER)))
    assert all(answer.is_whole for answer in answers)


async def arms(whole: Whole) -> dict[str, dict[str, Any]]:
    """What the shadow process tells of each arm."""
    for process in (await whole.status())["processes"]:
        for one in process.get("experiments", ()):
            return {arm["arm"]: arm for arm in one["arms"]}
    return {}


async def spared(whole: Whole, numbers: "count[int]") -> dict[str, int]:
    """How many answers each arm gave, once a copy went by the slow one and all else is answered."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await asked(whole, numbers)
            found = await arms(whole)
            if found and found["slow"]["spared"]:
                break
        while not found or any(arm["inflight"] for arm in found.values()):
            await asyncio.sleep(0.05)
            found = await arms(whole)
    return {name: sum(arm["endings"].values()) for name, arm in found.items()}


async def more(whole: Whole, numbers: "count[int]", than: dict[str, int]) -> dict[str, int]:
    """The same, once the control gave more answers than these."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await asked(whole, numbers)
            found = {name: sum(arm["endings"].values()) for name, arm in (await arms(whole)).items()}
            if found and found["control"] > than["control"] and found["quick"] > than["quick"]:
                return found


async def rank(folder: Path) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *shadowlane("rank", "trial", "--state-dir", str(folder / "state"), "--json"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(said)
    return found


async def left(whole: Whole, numbers: "count[int]") -> bool:
    """Whether the slow one has left; False where the machine is so busy that nothing can be told of it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await asked(whole, numbers)
            found = await ranking(whole, "trial")
            if not found.get("race"):
                continue
            if found["race"]["left"]:
                return True
            withheld = {v["withheld"] for c in found["candidates"] for v in c["verdicts"].values()} - {None}
            if found["pairs"] >= ENOUGH and any(BUSY.search(why) for why in withheld):
                return False


def test_the_slow_one_leaves_and_gets_no_more_copies_rank_says_why_and_a_restart_keeps_it_out(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        paces = (3.0, 3.0, 1.5, 9.0)
        production, control, quick, slow = [await emulated(stack, slow, n) for n, slow in enumerate(paces)]
        experiment = {
            "name": "trial",
            "control": {"engine": control},
            "candidates": [{"name": "quick", "engine": quick}, {"name": "slow", "engine": slow}],
            "sample": {"rate": 1.0},
            "race": {},
            "calibration_s": 0.1,
            "calibration_pairs": 10,
            "window_s": 0.1,
            "warm_up_s": 0,
        }
        fleets = [{"model": "m", "engines": [{"url": production, "kind": "vllm"}]}]
        settings, numbers = {"fleets": fleets, "experiments": [experiment]}, count()
        async with serving(tmp_path, settings) as whole:
            if not await left(whole, numbers):
                return
            race = (await ranking(whole, "trial"))["race"]
            assert [(one["name"], one["by"], one["rung"]) for one in race["left"]] == [("slow", "quick", 0)]
            assert race["running"] == ["quick"] and race["weights"] == {"ttft": 1.0, "tpot": 1.0}
            before = await spared(whole, numbers)
            after = await more(whole, numbers, before)
            assert after["slow"] == before["slow"]
        found = await rank(tmp_path)
        gates = {gate["name"]: gate for gate in found["gates"]["slow"]}
        assert gates["race"]["state"] == "failed" and "slow" not in found["passes"]
        assert "left the race beaten: quick (TTFT and TPOT alike -" in gates["race"]["detail"]
        async with serving(tmp_path, settings) as whole:
            after = await more(whole, numbers, dict.fromkeys(before, 0))
            assert after.get("slow", 0) == 0
            again = await ranking(whole, "trial")
            assert again["race"]["left"] == race["left"] and again["epoch"] == found["ranking"]["epoch"]

    with_engines(test)
