"""Arms' engines are asked what they count, over connections of their own; silence is told, too."""

import asyncio
from pathlib import Path
from typing import Any

from mirror.spec import ArmSpec
from tests.mirror.scripted import Request, engine, hang, tokens
from tests.mirror.staging import Stage, copy_frame, experiment, play, served_frame, shadow, until

PAGE = b'vllm:num_requests_running{engine="0"} 3.0\nvllm:num_preemptions_total{engine="0"} 7.0\n'


async def counts(request: Request, writer: asyncio.StreamWriter) -> None:
    """An engine that has metrics."""
    if request.line.startswith(b"POST"):
        await tokens(request, writer)
        return
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n" % len(PAGE) + PAGE
    )
    await writer.drain()


async def silent(request: Request, writer: asyncio.StreamWriter) -> None:
    """One that has none."""
    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
    await writer.drain()


def of(stage: Stage, arm: str) -> list[dict[str, Any]]:
    return [fields for fields in stage.analysis.of("engine") if fields["arm"] == arm]


def asked(requests: list[Request]) -> list[Request]:
    return [one for one in requests if one.line.startswith(b"GET")]


def test_what_engines_count_is_told_with_what_is_in_flight_and_who_says_nothing_is_asked_seldom(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with engine(counts) as control, engine(silent) as one:
            arms = (
                ArmSpec("control", control.url, "vllm", headers=(("authorization", "Bearer k"),)),
                ArmSpec("c1", one.url, "vllm"),
            )
            async with shadow(tmp_path, experiment(*arms), readings_s=0.02) as stage:
                _, lane = await stage.worker()
                lane.write(copy_frame("r1", 1) + served_frame("r1"))
                await until(lambda: bool(stage.analysis.of("pair")))
                await until(lambda: len(of(stage, "control")) > 20 and len(of(stage, "c1")) > 20)
                last = of(stage, "control")[-1]
                assert last["said"] == {"kind": "vllm", "running": 3.0, "preemptions": 7.0}
                assert last["epoch"] == 1 and last["busy_ns"] > 0 and last["late_ms"] >= 0.0
                assert [fields["at_ns"] for fields in of(stage, "control")] == sorted(
                    fields["at_ns"] for fields in of(stage, "control")
                )
                assert of(stage, "c1")[0]["why"] == "its metrics answered 404"
                assert of(stage, "c1")[5]["why"] == "it has no metrics"
                assert len(asked(one.requests)) < len(of(stage, "c1")) / 10
                question = asked(control.requests)[0]
                assert question.line == b"GET /metrics HTTP/1.1"
                assert question.headers["authorization"] == "Bearer k"
                lane.close()

    play(run)


def test_an_engine_that_does_not_answer_keeps_nobody_from_being_asked(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(counts) as control, engine(hang) as one:
            arms = ArmSpec("control", control.url, "vllm"), ArmSpec("c1", one.url, "vllm")
            async with shadow(tmp_path, experiment(*arms), readings_s=0.02, drain_s=0.1) as stage:
                await until(lambda: len(of(stage, "control")) > 5)
                assert not of(stage, "c1")
                await until(lambda: bool(of(stage, "c1")))
                assert of(stage, "c1")[0]["why"] == "its metrics did not answer"

    play(run)


def test_unless_asked_for_no_engine_is_asked(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(counts) as control, engine(counts) as one:
            arms = ArmSpec("control", control.url, "vllm"), ArmSpec("c1", one.url, "vllm")
            async with shadow(tmp_path, experiment(*arms)) as stage:
                await until(lambda: bool(stage.analysis.of("status")))
            assert not stage.analysis.of("engine") and not asked(control.requests)

    play(run)
