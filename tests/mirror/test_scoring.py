"""A phase in which all arms score the control's tokens: as vLLM does, as SGLang does, and one that cannot."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic_ns
from typing import Any

from analysis.measure import measure
from emulator.params import EngineParams
from emulator.server import start
from mirror.admit import Phase, PhaseName
from mirror.arms import SCORED
from mirror.pair import PAIR_TOO_LARGE, UNPACKABLE
from mirror.rewrite import WHOLE
from mirror.scoring import BUSY, TOO_LONG, Scoring
from mirror.sequel import NO_TOKEN_IDS
from mirror.shadow import ANALYSIS_DOWN
from mirror.spec import ArmSpec
from tests.mirror.scripted import Request, Script, engine
from tests.mirror.staging import Stage, copy_frame, experiment, play, served_frame, shadow, until
from tests.mirror.test_pause import comparison, copy

MODEL = EngineParams(model="llama", speed=40.0, hiccup_rate=0.0, output_tokens=8.0)
OTHER = replace(MODEL, model_seed=9)


def scored(stage: Stage) -> list[dict[str, Any]]:
    """Those that are judged: one that was under way at the end is not."""
    return [pair for pair in stage.analysis.of("pair") if pair.get("scored") and pair["mark"] is None]


async def feed(stage: Stage, lane: asyncio.StreamWriter, enough: Callable[[], bool]) -> None:
    """Copies, one after the other, each of another conversation, of arms that can score."""
    number = 0
    while not enough():
        assert not stage.analysis.of("unscored")
        number += 2
        lane.write(copy_frame(str(number), number) + served_frame(str(number)))
        await until(lambda: any(pair["id"] == str(number) for pair in stage.analysis.of("pair")))  # noqa: B023


def answer_json(writer: asyncio.StreamWriter, body: Any) -> None:
    said = json.dumps(body).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(said)
    writer.write(head + said)


def sglang(gate: asyncio.Event | None = None, text: str = "x") -> Script:
    """Chats in one piece, and scores; each of the latter once the gate is open, with a text of its own."""

    async def script(request: Request, writer: asyncio.StreamWriter) -> None:
        asked, path = json.loads(request.body or b"{}"), request.line.split()[1]
        if path == b"/generate":
            ids, begin = asked["input_ids"], asked["logprob_start_len"]
            if gate is not None and len(ids) > 7:  # the probe is of seven
                await gate.wait()
            told = [[None if n == 0 else -0.5, token, None] for n, token in enumerate(ids[begin:])]
            tops = [None if n == 0 else [[-0.5, one[1], None], [-1.5, 9, None]] for n, one in enumerate(told)]
            meta = {"input_token_logprobs": told, "input_top_logprobs": tops, "prompt_tokens": len(ids)}
            answer_json(writer, {"text": text, "output_ids": [1], "meta_info": meta})
        elif path == b"/v1/chat/completions":
            choice = {
                "index": 0,
                "message": {"role": "assistant", "content": "hello"},
                "finish_reason": "stop",
            }
            ids = {"prompt_token_ids": [1, 2, 3, 4], "response_token_ids": [21, 22, 23, 24, 25]}
            tells = asked.get("return_token_ids") and not asked["stream"]
            answer_json(writer, {"choices": [choice | ids if tells else choice]})
        else:
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()

    return script


def test_all_arms_score_the_controls_tokens_and_the_control_does_it_twice(tmp_path: Path) -> None:
    async def run() -> None:
        control, other = await start(MODEL), await start(replace(OTHER, max_logprobs=5))
        try:
            arms = ArmSpec("control", control.url, kind="vllm"), ArmSpec("c1", other.url, kind="vllm")
            async with shadow(tmp_path, experiment(*arms, max_inflight=500), phase="scored") as stage:
                _, lane = await stage.worker()
                await feed(stage, lane, lambda: len(scored(stage)) >= 3)
                lane.close()
            sources = {p["id"]: measure(p) for p in stage.analysis.of("pair") if not p.get("scored")}
            assert {p["mark"] for p in stage.analysis.of("pair") if not p.get("scored")} == {"scored_source"}
            for pair in scored(stage):
                record = measure(pair)
                assert record.phase == "scored" and record.mark is None and record.production is None
                assert [a.fault for a in record.answers] == [None] * 3
                assert sorted((a.arm, a.twin) for a in record.answers) == [
                    ("c1", 0),
                    ("control", 0),
                    ("control", 1),
                ]
                assert record.outputs["control"]["kl_k3"] == 0.0  # an emulated engine repeats itself
                assert record.outputs["c1"]["kl_k3"] > 0.0 and record.outputs["c1"]["kl_top"] > 0.0
                said = sources[str(pair["id"]).partition("~")[0]].answer("control")
                assert said is not None and said.completion_tokens == len(pair["scored"])
            told = [json.loads(b"".join(data for _, data in a["reads"])) for a in scored(stage)[0]["answers"]]
            rows = [row for answer in told for row in answer["choices"][0]["prompt_logprobs"][1:]]
            assert {len(row) for row in rows} <= {5, 6}  # as many as all of them tell
            books = stage.books
            assert books["rewrites"]["control"][SCORED] == 2 * books["rewrites"]["c1"][SCORED]
            assert books["admitted"] == books["paired"] + sum(books["dropped"].values())
        finally:
            await control.close()
            await other.close()

    play(run)


def test_an_engine_that_cannot_is_found_out_and_nothing_is_scored(tmp_path: Path) -> None:
    async def run() -> None:
        control, other = await start(MODEL), await start(replace(MODEL, max_logprobs=0))
        try:
            arms = ArmSpec("control", control.url, kind="vllm"), ArmSpec("c1", other.url, kind="vllm")
            async with shadow(tmp_path, experiment(*arms), phase="scored") as stage:
                await until(lambda: bool(stage.analysis.of("unscored")))
                _, lane = await stage.worker()
                lane.write(copy_frame("1", 2) + served_frame("1"))
                await until(lambda: bool(stage.analysis.of("pair")))
                lane.close()
            why = stage.analysis.of("unscored")[0]["why"]
            assert why == "c1 does not score tokens it is given, neither as vLLM does nor as SGLang"
            assert scored(stage) == []
        finally:
            await control.close()
            await other.close()

    play(run)


def test_sglang_and_vllm_score_the_same_tokens_each_in_its_way(tmp_path: Path) -> None:
    async def run() -> None:
        other = await start(MODEL)
        try:
            async with engine(sglang()) as control:
                arms = ArmSpec("control", control.url, kind="sglang"), ArmSpec("c1", other.url, kind="vllm")
                async with shadow(tmp_path, experiment(*arms, max_inflight=500), phase="scored") as stage:
                    _, lane = await stage.worker()
                    await feed(stage, lane, lambda: len(scored(stage)) >= 2)
                    lane.close()
                for pair in scored(stage):
                    record = measure(pair)
                    assert pair["scored"] == [21, 22, 23, 24, 25]
                    assert [a.fault for a in record.answers] == [None] * 3
                    assert record.outputs["control"]["kl_k3"] == 0.0 and record.outputs["c1"]["kl_k3"] > 0.0
                # It says ids only of answers in one piece, so its copies were not streamed.
                rewrites = stage.books["rewrites"]
                assert rewrites["control"][WHOLE] >= 2 and WHOLE not in rewrites["c1"]
        finally:
            await other.close()

    play(run)


def test_one_answer_at_a_time_is_scored_and_a_copy_beside_it_is_marked_even_after_the_phase() -> None:
    async def run() -> None:
        pairs: list[dict[str, Any]] = []
        gate = asyncio.Event()
        async with engine(sglang(gate)) as control, engine(sglang(gate)) as other:
            arms = [ArmSpec(n, e.url, kind="sglang") for n, e in (("control", control), ("c1", other))]
            one = comparison(experiment(*arms), pairs)
            try:
                one.phase = Phase("scored", 1)
                scoring = one._sequels.now
                assert isinstance(scoring, Scoring)
                await until(lambda: scoring.ready)

                one.take(copy("a"))
                await until(lambda: scoring.under_way == 3)
                one.take(copy("b"))
                await until(lambda: scoring.left[BUSY] == 1)
                one.phase = Phase("live", 1)
                one.take(copy("c"))  # the control is scoring still
                gate.set()
                await until(lambda: scoring.under_way == 0)
                one.take(copy("d"))
                await until(lambda: not one.joiner.inflight)
                one.joiner.expire(monotonic_ns() + 10**12)  # production's answers are not waited for
                marks = {pair["id"]: (pair["phase"], pair["mark"]) for pair in pairs}
                assert marks == {
                    "a": ("scored", "scored_source"),
                    "b": ("scored", "scored_source"),
                    "c": ("live", "scored_source"),
                    "d": ("live", None),
                    "a~0~scored": ("scored", None),
                }
            finally:
                one.close()

    play(run)


def test_where_the_pairs_are_too_large_to_be_told_the_phase_ends_and_says_why(tmp_path: Path) -> None:
    async def run() -> None:
        script = sglang(text="x" * 4096)
        async with engine(script) as control, engine(script) as other:
            arms = [ArmSpec(n, e.url, kind="sglang") for n, e in (("control", control), ("c1", other))]
            told = experiment(*arms, max_inflight=500)
            async with shadow(tmp_path, told, phase="scored", pair_bytes=8192) as stage:
                _, lane = await stage.worker()
                async with asyncio.timeout(30):
                    await feed(stage, lane, lambda: bool(stage.analysis.of("unscored")))
                lane.close()
            why = stage.analysis.of("unscored")[0]["why"]
            assert why == "what is scored cannot be told to the analysis (pair_too_large)"
            assert scored(stage) == [] and stage.books["dropped"]["pair_too_large"] >= 10

    play(run)


def test_only_pairs_in_a_row_that_are_themselves_amiss_end_the_phase() -> None:
    scoring = Scoring([], 2048)
    for reason in [UNPACKABLE] * 9 + [None] + [PAIR_TOO_LARGE] * 9 + [ANALYSIS_DOWN] * 50:
        scoring.ended(reason)
        assert scoring.why is None
    scoring.ended(PAIR_TOO_LARGE)
    assert scoring.why is not None


def test_where_no_answer_can_be_scored_or_forced_the_phase_ends_and_says_why() -> None:
    async def run() -> None:
        can = replace(MODEL, trace_replay=True)
        control, other = await start(can), await start(can)
        kinds = {NO_TOKEN_IDS: ("auto", 2048), TOO_LONG: ("vllm", 4)}
        phases: list[tuple[PhaseName, str]] = [
            ("scored", NO_TOKEN_IDS),
            ("scored", TOO_LONG),
            ("forced", NO_TOKEN_IDS),
        ]
        try:
            for phase, why in phases:
                kind, rows = kinds[why]
                arms = [ArmSpec(n, e.url, kind=kind) for n, e in (("control", control), ("c1", other))]
                one = comparison(experiment(*arms, max_inflight=500, scored_rows=rows), [])
                one.phase = Phase(phase, 1)
                sequel = one._sequels.now
                assert sequel is not None
                await until(lambda sequel=sequel: sequel.ready)  # type: ignore[misc]
                for number in range(50):
                    assert one.undone is None
                    one.take(copy(str(number)))
                    await until(lambda one=one: not one.joiner.inflight)  # type: ignore[misc]
                assert one.undone == (phase, f"no answer of the control can be {phase} ({why})")
                assert one.status()["left_out"] == {why: 50}
                one.close()
        finally:
            await control.close()
            await other.close()

    play(run)
