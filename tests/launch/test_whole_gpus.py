"""GPUs of a whole gateway: engines get free ones, see no others, and what these do is told beside pairs."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from analysis.report import report
from tests.gateway.whole import Whole, begin, serving, with_engines
from tests.launch.nvml import Card, machine
from tests.launch.staging import are, arm, ask_until, experiment, settings, until
from tests.support import FINISH, TOKEN, Engine, streams


def environ(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def on(gpus: Any) -> dict[str, Any]:
    return {**arm(), "gpus": gpus}


def test_engines_get_free_gpus_of_their_own_and_never_productions(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := Engine(streams(TOKEN, FINISH)))
        used = Card("GPU-used", used_mib=40_000, pid=4242)
        there = machine(tmp_path, Card("GPU-p"), used, Card("GPU-1"), Card("GPU-2"))
        told = settings(engine, experiment(on(1), on(1), on(1)), gpus=["GPU-p"])
        async with serving(tmp_path, told, there.env) as whole:
            seen = await until(whole, are(control="ready", c0="ready", c1="waiting"))
            assert {seen["control"]["gpus"][0], seen["c0"]["gpus"][0]} == {"GPU-1", "GPU-2"}
            for one in (seen["control"], seen["c0"]):
                environment = environ(one["pid"])
                assert f"CUDA_VISIBLE_DEVICES={one['gpus'][0]}".encode() in environment
            for reason in ("GPU 0: production's", "GPU 1: process 4242 is on it", "GPU 2: t/"):
                assert reason in seen["c1"]["why"]
            there.shows(Card("GPU-p"), Card("GPU-used"), Card("GPU-1"), Card("GPU-2"))
            seen = await until(whole, are(control="ready", c0="ready", c1="ready"))
            assert seen["c1"]["gpus"] == ["GPU-used"]
            await ask_until(whole, lambda books: books.get("paired", 0) >= 1)

    with_engines(test)


def test_what_the_gpus_of_arms_do_is_told_beside_the_pairs_and_is_in_the_report(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := Engine(streams(TOKEN, FINISH)))
        there = machine(tmp_path, Card("GPU-1"), Card("GPU-2", reasons=0x40))
        told = settings(engine, experiment(on(["0"]), on(["GPU-2"])))
        async with serving(tmp_path, {**told, "mirror": {"readings_s": 0.2}}, there.env) as whole:
            await until(whole, are(control="ready", c0="ready"))
            await ask_until(whole, lambda books: books.get("paired", 0) >= 1)
            there.shows(Card("GPU-1", energy_mj=3_601_000), Card("GPU-2", reasons=0x40, xid=79))
            async with asyncio.timeout(60):
                while True:
                    hardware = (await ranking(whole)).get("hardware", {})
                    shown = {name: one["gpus"][0] for name, one in hardware.items() if one["gpus"]}
                    if shown.get("control", {}).get("energy_wh") == 1.0 and shown["c0"]["xid"]:
                        break
                    await asyncio.sleep(0.1)
            assert (shown["control"]["uuid"], shown["c0"]["uuid"]) == ("GPU-1", "GPU-2")
            assert (shown["control"]["throttled"], shown["c0"]["throttled"]) == (0.0, 1.0)
            assert shown["c0"]["throttling"] == {"hw_thermal": 1.0} and shown["c0"]["xid"] == [79]
            assert shown["control"]["power_w"] == 412.0
        found = report(tmp_path / "state" / "t" / "log.msgpack")  # the same from the log alone
        assert found["hardware"]["c0"]["gpus"][0]["xid"] == [79]

    with_engines(test)


async def ranking(whole: Whole) -> dict[str, Any]:
    async with whole.http.get(f"{whole.admin}/api/experiments/t") as answer:
        found: dict[str, Any] = await answer.json(content_type=None)
        return found
