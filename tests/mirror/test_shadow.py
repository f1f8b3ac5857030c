"""The shadow process at work: copies in, pairs out, on real sockets."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from analysis.measure import measure
from mirror.lane import pack_missed
from mirror.shadow import serve_shadow
from mirror.spec import ArmSpec, ShadowSpec
from tests.mirror.scripted import Request, engine, leaves_kept_connections, tokens
from tests.mirror.staging import (
    Analysis,
    copy_frame,
    experiment,
    phase_frame,
    play,
    served_frame,
    shadow,
    until,
)


def text(answer: dict[str, Any]) -> bytes:
    return b"".join(body for _, body in answer["reads"])


def test_a_copy_becomes_a_pair_with_one_answer_of_each_arm_and_productions(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as fast:
            told = experiment(ArmSpec("control", control.url), ArmSpec("fp8", fast.url))
            async with shadow(tmp_path, told) as stage:
                _, lane = await stage.worker()
                lane.write(copy_frame("a", 8, headers=[]) + served_frame("a"))
                await until(lambda: bool(stage.analysis.of("pair")))
                lane.close()
            (pair,) = stage.analysis.of("pair")
            assert (pair["experiment"], pair["id"], pair["phase"], pair["root"]) == ("fp8-kv", "a", "live", 8)
            assert {each["arm"] for each in pair["answers"]} == {"control", "fp8"}
            for answer in pair["answers"]:
                assert (answer["ending"], answer["status"], answer["twin"]) == ("complete", 200, 0)
                assert answer["content_type"] == "text/event-stream"
                assert text(answer).count(b"data: ") == 10 and text(answer).endswith(b"data: [DONE]\n\n")
                instants = [
                    answer["sent_ns"],
                    answer["head_ns"],
                    *(at for at, _ in answer["reads"]),
                    answer["end_ns"],
                ]
                assert instants == sorted(instants) and pair["at_ns"] <= answer["sent_ns"]
            assert pair["production"]["reads"] == [[5, b"data: {}\n\n"]]
            assert stage.books["admitted"] == stage.books["paired"] == 1
            assert control.left_early == fast.left_early == 0  # both streams were read to their end

    play(run)


def test_only_declared_rewrites_differ_and_the_books_list_them(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as fast:
            told = experiment(
                ArmSpec("control", control.url, kind="openai"),
                ArmSpec("fp8", fast.url, kind="vllm", model="llama-fp8"),
                models=("llama",),
            )
            body = b'{"model":"llama", "n" : 1.0, "stream":false}'
            async with shadow(tmp_path, told) as stage:
                _, lane = await stage.worker()
                lane.write(copy_frame("a", 8, body=body) + served_frame("a"))
                await until(lambda: bool(stage.analysis.of("pair")))
                lane.close()
            assert control.requests[0].body == body
            assert json.loads(fast.requests[0].body) == json.loads(body) | {
                "model": "llama-fp8",
                "return_token_ids": True,
            }
            assert stage.books["rewrites"] == {"control": {}, "fp8": {"model": 1, "return_token_ids": 1}}

    play(run)


def test_while_calibrating_even_conversations_go_twice_to_each_arm_the_second_salted(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as fast:
            told = experiment(
                ArmSpec("control", control.url, kind="vllm"), ArmSpec("fp8", fast.url, kind="vllm")
            )
            async with shadow(tmp_path, told, phase=None) as stage:  # until told otherwise, it calibrates
                _, lane = await stage.worker()
                for root in range(4):
                    lane.write(copy_frame(str(root), root) + served_frame(str(root)))
                await until(lambda: len(stage.analysis.of("pair")) == 2)
                lane.close()
            for pair in stage.analysis.of("pair"):
                assert pair["phase"] == "calibration" and pair["root"] % 2 == 0
                keys = {(each["arm"], each["twin"]) for each in pair["answers"]}
                assert keys == {("control", 0), ("control", 1), ("fp8", 0), ("fp8", 1)}
                assert [each["order"] for each in pair["answers"]] == [0, 1, 2, 3]
            salts = [json.loads(request.body).get("cache_salt") for request in control.requests]
            assert salts.count(None) == 2 and len({salt for salt in salts if salt}) == 1
            assert stage.books["dropped"] == {"calibration": 2}

    play(run)


def test_the_analysis_process_sets_the_phase(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control:
            async with shadow(tmp_path, experiment(ArmSpec("control", control.url)), phase="paused") as stage:
                _, lane = await stage.worker()
                lane.write(copy_frame("a", 8))
                await until(lambda: bool(stage.analysis.of("books")))
                stage.analysis.tell(phase_frame("fp8-kv", "live", epoch=4))
                await until(lambda: stage.analysis.of("status")[-1]["experiments"][0]["phase"] == "live")
                lane.write(copy_frame("b", 8, turn=1) + copy_frame("c", 9) + served_frame("c"))
                await until(lambda: bool(stage.analysis.of("pair")))
                lane.close()
            (pair,) = stage.analysis.of("pair")
            assert (pair["id"], pair["phase"], pair["epoch"]) == ("c", "live", 4)
            assert stage.books["dropped"] == {
                "paused": 2
            }  # a conversation that lost its first turn stays out

    play(run)


def test_the_order_of_dispatch_is_random_and_the_first_place_is_shared(tmp_path: Path) -> None:
    async def run() -> None:
        firsts: Counter[str] = Counter()
        async with engine(tokens) as one, engine(tokens) as two, engine(tokens) as three:
            arms = [ArmSpec("control", one.url), ArmSpec("a", two.url), ArmSpec("b", three.url)]
            stop = asyncio.Event()
            analysis = Analysis(tmp_path)
            await analysis.open()
            spec = ShadowSpec(str(tmp_path), (experiment(*arms, max_inflight=500),))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(serve_shadow(spec, stop, Random(3)))
                await until(lambda: analysis.connections > 0)
                await asyncio.sleep(0.05)
                _, lane = await asyncio.open_unix_connection(str(tmp_path / "lane.sock"))
                for k in range(240):
                    lane.write(copy_frame(str(k), k) + served_frame(str(k)))
                await until(lambda: len(analysis.of("pair")) == 240)
                stop.set()
                lane.close()
            await analysis.close()
            for pair in analysis.of("pair"):
                assert [each["order"] for each in pair["answers"]] == [0, 1, 2]
                firsts[pair["answers"][0]["arm"]] += 1
            # chi-square with two degrees of freedom: 13.8 is passed once in a thousand
            assert sum((n - 80) ** 2 / 80 for n in firsts.values()) < 13.8 and len(firsts) == 3

    play(run)


def test_a_copy_sent_into_a_closing_connection_is_sent_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(leaves_kept_connections) as control:
            async with shadow(tmp_path, experiment(ArmSpec("control", control.url))) as stage:
                _, lane = await stage.worker()
                for k in range(3):
                    lane.write(copy_frame(str(k), k) + served_frame(str(k)))
                    await until(lambda k=k: len(stage.analysis.of("pair")) == k + 1)  # type: ignore[misc]
                lane.close()
            endings = [pair["answers"][0]["ending"] for pair in stage.analysis.of("pair")]
            assert endings == ["complete"] * 3
            assert [request.nth for request in control.requests] == [0, 1, 0, 1, 0]

    play(run)


def test_one_that_was_heard_of_no_more_only_after_a_while_is_not_sent_again_for_the_engine_had_it(
    tmp_path: Path,
) -> None:
    async def dies_of_it(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.nth > 0:
            await asyncio.sleep(0.3)  # at the least
            raise ConnectionResetError
        await tokens(request, writer)

    async def run() -> None:
        async with engine(dies_of_it) as control:
            async with shadow(tmp_path, experiment(ArmSpec("control", control.url))) as stage:
                _, lane = await stage.worker()
                for n in range(2):
                    lane.write(copy_frame(str(n), 2 * n) + served_frame(str(n)))
                    await until(lambda n=n: len(stage.analysis.of("pair")) == n + 1)  # type: ignore[misc]
                lane.close()
            endings = [pair["answers"][0]["ending"] for pair in stage.analysis.of("pair")]
            assert endings == ["complete", "cut"] and len(control.requests) == 2

    play(run)


def test_what_the_worker_dropped_and_what_must_not_be_copied_is_in_the_books(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control:
            told = experiment(ArmSpec("control", control.url))
            async with shadow(tmp_path, told, copy_bytes=1000) as stage:
                _, lane = await stage.worker()
                lane.write(pack_missed("fp8-kv", "lane_full", 3) + pack_missed("other", "lane_full", 9))
                lane.write(copy_frame("a", 8, path="/v1/files"))
                lane.write(copy_frame("b", 8, headers=[(b"X-Shadowlane-Copy", b"x")]))
                lane.write(copy_frame("c", 8, body=b"x" * 1001))
                lane.write(copy_frame("d", 8, path="/v1/completions", turn=2))
                await until(lambda: bool(stage.analysis.of("books")))
                lane.close()
            assert stage.books["dropped"] == {
                "lane_full": 3,
                "not_copyable": 2,
                "too_large": 1,
                "joined_late": 1,
            }
            assert stage.books["admitted"] == 7 and control.requests == []

    play(run)


def test_the_analysis_reads_what_the_shadow_sends(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as fast:
            told = experiment(ArmSpec("control", control.url), ArmSpec("fp8", fast.url))
            async with shadow(tmp_path, told) as stage:
                _, lane = await stage.worker()
                lane.write(copy_frame("a", 8) + served_frame("a"))
                await until(lambda: bool(stage.analysis.of("pair")))
                lane.close()
            record = measure(stage.analysis.of("pair")[0])
            assert record.experiment == "fp8-kv" and record.phase == "live" and record.production is not None
            for arm in ("control", "fp8"):
                answer = record.answer(arm)
                assert answer is not None and answer.fault is None and answer.streamed
                assert answer.completion_tokens == 8 and answer.ttft_ms is not None

    play(run)
