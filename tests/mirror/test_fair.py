"""Copies meet the same conditions in all arms: as many, as warm, as loaded; what did not is marked."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgpack
import pytest

from mirror.lane import pack_load
from mirror.sample import copies_of
from mirror.spec import ArmSpec
from tests.mirror.scripted import Engine, engine, hang, tokens
from tests.mirror.staging import copy_frame, experiment, phase_frame, play, served_frame, shadow, until

S = 1_000_000_000


def salts(of: Engine) -> dict[str, list[str | None]]:
    """By a request's words, the salts it came with, sorted."""
    found: dict[str, list[str | None]] = {}
    for request in of.requests:
        body = json.loads(request.body)
        found.setdefault(body["messages"][0]["content"], []).append(body.get("cache_salt"))
    return {words: sorted(some, key=str) for words, some in found.items()}


def test_a_rate_above_one_sends_every_turn_so_often_to_all_arms_each_duplicate_with_one_salt(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as fast:
            arms = ArmSpec("control", control.url, kind="vllm"), ArmSpec("fp8", fast.url, kind="vllm")
            async with shadow(tmp_path, experiment(*arms, rate=2.5, salt=b"s", max_inflight=1000)) as stage:
                _, lane = await stage.worker()
                for turn in range(2):
                    for root in range(20):
                        lane.write(copy_frame(f"{root}.{turn}", root, turn) + served_frame(f"{root}.{turn}"))
                times = [copies_of(b"s", root, 2.5) for root in range(20)]
                await until(lambda: len(stage.analysis.of("pair")) == 2 * sum(times))
                lane.close()
            assert salts(control) == salts(fast)
            sent = {len(some) for some in salts(control).values()}
            assert sent == {4, 6}  # two turns, each twice or three times
            per_duplicate = {salt for some in salts(control).values() for salt in some}
            assert len(per_duplicate) == 3 and None in per_duplicate
            pairs = stage.analysis.of("pair")
            assert len(pairs) == len(control.requests) == stage.books["paired"]
            assert {p["duplicate"] for p in pairs} == {0, 1, 2}
            # production answered once, and is beside one of them only
            assert all((p["production"] is None) == (p["duplicate"] > 0) for p in pairs)

    play(run)


def test_pairs_of_the_first_seconds_are_marked_and_so_are_those_after_a_pause(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control:
            told = experiment(ArmSpec("control", control.url), warm_up_s=1e6)
            async with shadow(tmp_path, told) as stage:
                _, lane = await stage.worker()
                lane.write(copy_frame("a", 8) + served_frame("a"))
                await until(lambda: bool(stage.analysis.of("pair")))
                lane.close()
            assert [pair["mark"] for pair in stage.analysis.of("pair")] == ["warm_up"]

            told = experiment(ArmSpec("control", control.url), warm_up_s=0.3)
            async with shadow(tmp_path, told) as stage:
                _, lane = await stage.worker()
                await _until_unmarked(stage, lane, "b")
                for phase in ("paused", "live"):
                    stage.analysis.tell(phase_frame("fp8-kv", phase))
                    await until(lambda phase=phase: phase == phase_of(stage))  # type: ignore[misc]
                before = len(stage.analysis.of("pair"))
                await _until_unmarked(stage, lane, "c", before)
                assert stage.analysis.of("pair")[before]["mark"] == "warm_up"
                lane.close()

    play(run)


def phase_of(stage: Any) -> str | None:
    told = stage.analysis.of("status")
    return told[-1]["experiments"][0]["phase"] if told else None


async def _until_unmarked(stage: Any, lane: asyncio.StreamWriter, name: str, before: int = 0) -> None:
    for n in range(1000):
        lane.write(copy_frame(f"{name}{n}", 8) + served_frame(f"{name}{n}"))
        await until(lambda n=n: len(stage.analysis.of("pair")) == before + n + 1)  # type: ignore[misc]
        if stage.analysis.of("pair")[-1]["mark"] is None:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("every pair is marked")


def test_pairs_that_end_while_the_experiment_ends_are_marked(tmp_path: Path) -> None:
    async def run() -> None:
        go = asyncio.Event()

        async def late(request: Any, writer: asyncio.StreamWriter) -> None:
            await go.wait()
            await tokens(request, writer)

        async with engine(late) as control:
            told = experiment(ArmSpec("control", control.url))
            async with shadow(tmp_path, told) as stage:
                _, lane = await stage.worker()
                lane.write(copy_frame("a", 8) + served_frame("a"))
                await until(lambda: len(control.requests) == 1)
                stage.stop.set()
                await asyncio.sleep(0.1)
                go.set()
                await until(lambda: bool(stage.analysis.of("pair")))
                lane.close()
            assert [pair["mark"] for pair in stage.analysis.of("pair")] == ["drain"]

    play(run)


def test_the_load_is_told_and_with_auto_the_workers_hear_the_share_that_follows(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(hang) as control:
            told = experiment(ArmSpec("control", control.url), rate=0.5, auto=True)
            async with shadow(tmp_path, told, drain_s=0.0) as stage:
                reader, lane = await stage.worker()
                lane.write(pack_load("fp8-kv", 0, S, 0, 2) + copy_frame("a", 8))
                await until(lambda: phase_of(stage) is not None)  # the first second is over
                # Six requests at two engines, all the time, says the worker
                lane.write(pack_load("fp8-kv", 0, 6 * S, 30 * S, 2))
                heard = msgpack.Unpacker()
                rates: list[dict[str, float]] = []
                async with asyncio.timeout(20):
                    while not rates:
                        heard.feed(await reader.read(1 << 16))
                        rates += [said for kind, said in heard if kind == "rates"]
                await until(lambda: bool(stage.analysis.of("load")))
                load = stage.analysis.of("load")[0]
                lane.close()
            assert rates[0] == {"fp8-kv": 0.5}  # nothing is set before enough was seen
            assert load["production"] * load["span_s"] == pytest.approx(15.0) and load["matched"] is True
            assert 0.5 < load["arms"]["control"] <= 1.001 and load["span_s"] >= 5.0

    play(run)
