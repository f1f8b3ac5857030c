"""A whole gateway replays a recording on engines in turn, and says which is faster and which is not."""

import asyncio
import json
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from emulator.params import EngineParams
from emulator.server import start
from tests.gateway.whole import Whole, begin, serving, with_engines
from tests.support import FINISH, TOKEN, Engine, streams
from workload.row import Row, to_line

# It waits for over a hundred answers: on a machine that is loaded tenfold that takes minutes.
pytestmark = pytest.mark.timeout(400)
PATIENCE_S = 240.0

PIECES = 16
A_PIECE = 5
SLOT_S = 0.125
BUSY = re.compile(r"\((harness|dispatch_lag|calibrated|steady); to mend it")


def recording(folder: Path) -> Path:
    """Without text: conversations of one turn, some of which begin alike."""
    made = folder / "recordings"
    made.mkdir()
    rows = [
        Row(
            timestamp=1000 * SLOT_S * piece + 20.0 * n,
            input_length=120,
            output_length=12,
            hash_ids=[n % 3, 1000 * piece + n],
            id=f"{piece}.{n}",
            session=f"{piece}.{n}",
            model="m",
            path="/v1/chat/completions",
            status=200,
        )
        for piece in range(PIECES)
        for n in range(A_PIECE)
    ]
    (made / "20261130T040501Z-0001.jsonl").write_bytes(b"".join(map(to_line, rows)))
    (made / "20261130T040501Z.json").write_text(json.dumps({"schema": 1, "block_tokens": 64}))
    return made


async def emulated(stack: AsyncExitStack, slow: float, seed: int) -> str:
    params = EngineParams(model="m", seed=seed, speed=2.0, slow=slow, hiccup_rate=0.0)
    running = await start(params, "127.0.0.1", 0)
    stack.push_async_callback(running.close)
    return running.url


async def ranking(whole: Whole, name: str = "spare") -> dict[str, Any]:
    async with whole.http.get(f"{whole.admin}/api/experiments/{name}") as answer:
        found: dict[str, Any] = await answer.json(content_type=None)
        return found


async def slots(whole: Whole) -> dict[str, Any]:
    """What the shadow process tells of the experiment's turns."""
    for process in (await whole.status())["processes"]:
        for one in process.get("experiments", ()):
            if one.get("slots"):
                return dict(one["slots"])
    return {}


async def replayed(whole: Whole) -> dict[str, Any]:
    """The turns once all is sent."""
    async with asyncio.timeout(PATIENCE_S):
        while not (seen := await slots(whole)).get("over"):
            await asyncio.sleep(0.2)
    return seen


async def judged(whole: Whole) -> dict[str, Any]:
    """The ranking once every block is in it.

    By the first token: an answer whose tokens a busy machine reads all at once has no time between them.
    """
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await ranking(whole)
            if {one["verdicts"]["ttft"].get("units") for one in found["candidates"]} == {PIECES}:
                return found
            await asyncio.sleep(0.1)


def said(found: dict[str, Any]) -> list[list[Any]]:
    """What the pairs say of each candidate's tokens; what is withheld depends on the shadow's timers, too."""
    names = ("ratio", "lower", "upper", "units")
    return [[one["name"], one["n"], *map(one["verdicts"]["tpot"].get, names)] for one in found["candidates"]]


def test_a_replay_on_engines_in_turn_finds_the_candidate_of_a_tenth_of_the_pace_and_is_sent_once(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, production := Engine(streams(TOKEN, FINISH)))
        control, quick, same = [await emulated(stack, slow, n) for n, slow in enumerate((5.0, 0.5, 5.0))]
        experiment = {
            "name": "spare",
            "mode": "replay",
            "replay": str(recording(tmp_path)),
            "turns": {"slot_s": SLOT_S, "ready_s": 30},
            "control": {"engine": control},
            "candidates": [{"name": "quick", "engine": quick}, {"name": "same", "engine": same}],
            "calibration_s": 0.5,
            "calibration_pairs": 20,
            "warm_up_s": 0,
        }
        fleets = [{"model": "m", "engines": [{"url": production.url, "kind": "vllm"}]}]
        async with serving(tmp_path, {"fleets": fleets, "experiments": [experiment]}) as whole:
            seen = await replayed(whole)
            assert seen["turns"] == seen["replay"]["turns"] == 2 * PIECES
            assert seen["replay"]["requests"] == PIECES * A_PIECE and not seen["replay"]["left_out"]
            found = await judged(whole)
            assert (found["mode"], found["phase"]) == ("replay", "live")
            verdicts = {one["name"]: one["verdicts"]["tpot"] for one in found["candidates"]}
            assert verdicts["quick"]["upper"] < 0.9 and verdicts["quick"]["ratio"] < verdicts["same"]["lower"]
            # a machine that is so busy that timers come late has no label, and is told why
            withheld = verdicts["quick"]["withheld"]
            assert verdicts["quick"]["label"] == "FASTER" or BUSY.search(withheld or ""), found["summary"]
            books = found["books"]
            assert books["admitted"] == books["paired"] + sum(books["dropped"].values())
            assert not production.asked  # what is recorded loads the arms only
        # the log alone says the same, and a gateway that starts again does not send it again
        async with serving(tmp_path, {"fleets": fleets, "experiments": [experiment]}) as whole:
            await replayed(whole)
            again = await judged(whole)
            assert (again["pairs"], again["epoch"]) == (found["pairs"], found["epoch"])
            assert said(again) == said(found)
            # one of a recording that is not there is told of before anything changes
            whole.write(
                experiments=[experiment, {**experiment, "name": "none", "replay": str(tmp_path / "none")}]
            )
            status, refused = await whole.reload()
            assert status == 422 and "there is no such file or folder" in refused["error"]["message"]
            assert "none" not in json.dumps(await slots(whole))

    with_engines(test)
