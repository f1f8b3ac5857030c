"""An experiment that replays: recorded traffic goes to each arm in turn, and its pairs are as any other's."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.measure import measure
from gateway.recording.replayed import Replayable, replayable
from mirror.spec import ArmSpec, GoldenItem, GoldenSpec, MirrorExperiment, ReplaySpec, SlotSpec
from tests.mirror.scripted import Engine, Request, engine, tokens
from tests.mirror.staging import Stage, phase_frame, play, shadow, until
from workload.row import Row, to_line

SLOT_S = 0.3
TEXT = {"messages": [{"role": "user", "content": "kept as it is"}], "model": "m", "stream": True}


def row(number: int, at_ms: float, **more: Any) -> Row:
    """A request of a conversation of its own, with its text unless told otherwise."""
    said = {**TEXT, "messages": [{"role": "user", "content": f"request {number}"}]}
    values: dict[str, Any] = {
        "input_length": 100,
        "output_length": 8,
        "hash_ids": [1, 2 + number],
        "id": f"r{number}",
        "session": f"s{number}",
        "model": "m",
        "path": "/v1/chat/completions",
        "status": 200,
        "request": said,
    }
    return Row(timestamp=at_ms, **{**values, **more})


def written(folder: Path, rows: Sequence[Row]) -> Path:
    file = folder / "traffic.jsonl"
    file.write_bytes(b"".join(map(to_line, rows)))
    return file


def experiment(file: Path, *arms: ArmSpec, **replay: Any) -> MirrorExperiment:
    return MirrorExperiment(
        "fp8-kv",
        "m",
        arms,
        models=("m",),
        slots=SlotSpec(SLOT_S, ready_s=20),
        replay=ReplaySpec((str(file),), **{"names": ("m",), **replay}),
        max_inflight=10_000,
    )


def read(file: Path, **replay: Any) -> Replayable:
    arms = ArmSpec("control", "http://127.0.0.1:9"), ArmSpec("c1", "http://127.0.0.1:9")
    return replayable(experiment(file, *arms, **replay))


def asked(of: Engine) -> list[str]:
    """What was said in the requests that an engine got, in order."""
    bodies = [json.loads(one.body) for one in of.requests if one.line.startswith(b"POST")]
    return [str(body["messages"][-1]["content"]) for body in bodies]


def status(stage: Stage) -> dict[str, Any]:
    told = stage.analysis.of("status")
    found: dict[str, Any] = told[-1]["experiments"][0]["slots"] if told else {}
    return found


async def over(stage: Stage) -> None:
    async with asyncio.timeout(60):
        while not status(stage).get("over"):
            await asyncio.sleep(0.02)


def test_each_candidate_gets_all_of_it_after_the_control_and_the_pairs_are_as_any_other(
    tmp_path: Path,
) -> None:
    rows = [row(n, 60.0 * n) for n in range(10)]  # two slots of five

    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as one, engine(tokens) as two:
            arms = ArmSpec("control", control.url), ArmSpec("c1", one.url), ArmSpec("c2", two.url)
            told = experiment(written(tmp_path, rows), *arms, rounds=2)
            async with shadow(tmp_path, told, recorded=replayable) as stage:
                await over(stage)
                assert status(stage)["replay"]["turns"] == status(stage)["turns"] == 8
                done = status(stage)["replay"]
                assert done["sent"] == done["sends"] == 2 * 40 and done["left_s"] == 0.0
                assert done["late_ms"] >= 0.0
                assert stage.books["replay"] == {"turns": 8, "of": 8}
                halves = [one["experiments"][0]["slots"]["replay"] for one in stage.analysis.of("status")]
                assert all(
                    half["sent"] <= 80 and (half["left_s"] or 0.0) >= 0 for half in halves if half["turns"]
                )
            everything = [f"request {n}" for n in range(10)]
            assert sorted(asked(one)) == sorted(asked(two)) == sorted(2 * everything)
            assert sorted(asked(control)) == sorted(4 * everything)
            pairs = stage.analysis.of("pair")
            assert len(pairs) == 40 and {pair["phase"] for pair in pairs} == {"live"}
            second = {pair["block"]: pair["answers"][1]["arm"] for pair in pairs}
            assert [second[block] for block in sorted(second)] == ["c1", "c2"] * 4
            for pair in pairs:
                record = measure(pair)
                assert [a["arm"] for a in pair["answers"]] == ["control", second[pair["block"]]]
                assert record.production is None and record.outputs[second[pair["block"]]]["exact_match"] == 1
                late_ns = pair["answers"][0]["sent_ns"] - pair["production_sent_ns"]
                assert -5_000_000 < late_ns < 5_000_000_000  # sent at its instant
            books = stage.books
            assert (books["admitted"], books["paired"], books["dropped"], books["open"]) == (40, 40, {}, 0)

    play(run)


def test_golden_requests_are_put_among_what_is_replayed_and_each_candidate_has_all_of_them_beside_the_control(
    tmp_path: Path,
) -> None:
    rows = [row(n, 30.0 * n) for n in range(10)]  # one slot
    items = [
        GoldenItem(f"set/{n}", json.dumps({"messages": [{"content": f"golden {n}"}]}).encode(), b"{}")
        for n in range(2)
    ]

    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as one, engine(tokens) as two:
            arms = ArmSpec("control", control.url), ArmSpec("c1", one.url), ArmSpec("c2", two.url)
            told = replace(experiment(written(tmp_path, rows), *arms), golden=GoldenSpec(4, tuple(items)))
            async with shadow(tmp_path, told, recorded=replayable) as stage:
                await over(stage)
                replay = status(stage)["replay"]
                assert replay["sent"] == replay["sends"] == 2 * 20  # of the recording
            for arm, times in ((control, 2), (one, 1), (two, 1)):
                assert sorted(asked(arm)) == sorted(
                    times * [f"request {n}" for n in range(10)] + times * ["golden 0", "golden 1"]
                )
            golden = [pair for pair in stage.analysis.of("pair") if pair["golden"] is not None]
            for candidate in ("c1", "c2"):
                own = [pair for pair in golden if pair["answers"][1]["arm"] == candidate]
                assert {pair["golden"]["id"] for pair in own} == {"set/0", "set/1"} and len(own) == 2
                assert {(pair["mark"], pair["production"]) for pair in own} == {("golden", None)}
                assert {pair["answers"][0]["arm"] for pair in own} == {"control"}
            books = stage.books
            assert (books["admitted"], books["paired"], books["dropped"]) == (24, 24, {})

    play(run)


def test_a_calibration_repeats_a_piece_at_the_control_and_the_trial_begins_with_the_first(
    tmp_path: Path,
) -> None:
    rows = [row(n, 60.0 * n) for n in range(10)]

    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as one:
            arms = ArmSpec("control", control.url), ArmSpec("c1", one.url)
            told = experiment(written(tmp_path, rows), *arms)
            async with shadow(tmp_path, told, phase="calibration", recorded=replayable) as stage:
                pairs = stage.analysis.of
                await until(lambda: len({pair["block"] for pair in pairs("pair")}) >= 3)
                assert not one.requests
                stage.analysis.tell(phase_frame("fp8-kv", "live"))
                await over(stage)
            calibrating = [pair for pair in pairs("pair") if pair["phase"] == "calibration"]
            assert {tuple(a["twin"] for a in pair["answers"]) for pair in calibrating} == {(0, 1)}
            whole = {pair["id"].partition(".")[0] for pair in calibrating if pair["block"] == 0}
            assert whole == {f"r{n}" for n in range(5)}  # at the load that the trial will have
            assert sorted(asked(one)) == sorted(f"request {n}" for n in range(10))

    play(run)


def test_a_replay_goes_on_where_the_process_before_it_was_and_is_not_begun_again(tmp_path: Path) -> None:
    rows = [row(n, 100.0 * n) for n in range(9)]  # three slots of three

    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as one:
            arms = ArmSpec("control", control.url), ArmSpec("c1", one.url)
            told = experiment(written(tmp_path, rows), *arms)
            async with shadow(tmp_path, told, phase=None, recorded=replayable) as stage:
                await until(lambda: bool(stage.analysis.of("status")))
                assert not control.requests  # it is not known yet how much was sent before
                stage.analysis.tell(phase_frame("fp8-kv", "live", blocks=7, turns=2))
                await over(stage)
            assert sorted(asked(one)) == ["request 6", "request 7", "request 8"]
            assert {pair["block"] for pair in stage.analysis.of("pair")} == {7}
            seen = len(control.requests)
            async with shadow(tmp_path, told, phase=None, recorded=replayable) as stage:
                await until(lambda: stage.analysis.connections > 0)
                stage.analysis.tell(phase_frame("fp8-kv", "live", blocks=8, turns=3))
                await over(stage)
            assert len(control.requests) == seen

    play(run)


def test_what_a_pause_cut_short_is_sent_again_once_it_is_over(tmp_path: Path) -> None:
    rows = [row(n, 60.0 * n) for n in range(5)]

    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as one:
            arms = ArmSpec("control", control.url), ArmSpec("c1", one.url)
            told = experiment(written(tmp_path, rows), *arms)
            async with shadow(tmp_path, told, recorded=replayable) as stage:
                await until(lambda: bool(asked(control)))
                stage.serving.switch({"fp8-kv"})
                await until(lambda: bool(stage.analysis.of("status")) and status(stage)["turns"] == 0)
                stage.serving.switch(frozenset())
                await over(stage)
            live = [pair for pair in stage.analysis.of("pair") if pair["block"] > 0]
            assert sorted(pair["id"].partition(".")[0] for pair in live) == [f"r{n}" for n in range(5)]
            books = stage.books
            assert books["admitted"] == books["paired"] + sum(books["dropped"].values())

    play(run)


def test_text_goes_as_it_was_recorded_but_for_the_name_of_a_model_that_is_not_there(tmp_path: Path) -> None:
    other = row(1, 5.0, request={**TEXT, "model": "elsewhere", "temperature": 0.25})
    found = read(written(tmp_path, [row(0, 0.0), other]), names=("m", "lora"))
    first, second = (json.loads(due.copy.body) for due in found.piece(0))
    assert first == {**TEXT, "messages": [{"role": "user", "content": "request 0"}]}
    assert second == {**TEXT, "model": "m", "temperature": 0.25}


def test_without_text_prompts_share_what_the_recorded_ones_shared_and_are_as_long(tmp_path: Path) -> None:
    async def counted(request: Request, writer: asyncio.StreamWriter) -> None:
        words = len(json.loads(request.body)["messages"][0]["content"].split())
        body = json.dumps({"usage": {"prompt_tokens": 2 * words + 10}}).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % len(body) + body)

    bare = [row(n, 10.0 * n, request=None, input_length=900, hash_ids=[7, 8 + n]) for n in range(2)]

    async def run() -> None:
        from mirror.arms import Arm

        async with engine(counted) as control:
            spec = ArmSpec("control", control.url)
            told = experiment(written(tmp_path, bare), spec, spec.__class__("c1", control.url))
            arm = Arm(spec, told, loop=asyncio.get_running_loop(), answer_bytes=1 << 20)
            found = replayable(told)
            await found.get_ready(arm)
            arm.close()
            assert all(one.headers["x-shadowlane-copy"] for one in control.requests)
        said = [json.loads(due.copy.body) for due in found.piece(0)]
        texts = [one["messages"][0]["content"].split() for one in said]
        shared = next(n for n in range(900) if texts[0][n] != texts[1][n])
        assert [2 * len(text) + 10 for text in texts] == [900, 900]
        assert 250 <= shared < 260  # of 512 tokens, by two tokens a word
        assert {(one["max_tokens"], one["stream"], one["model"]) for one in said} == {(8, True, "m")}

    play(run)


def test_what_failed_and_what_leaves_something_behind_is_left_out_and_counted(tmp_path: Path) -> None:
    kept = row(0, 0.0)
    failed = row(1, 1.0, status=429)
    stored = row(2, 2.0, path="/v1/responses", request={"model": "m", "input": "keep this"})
    unknown = row(3, 3.0, path="/v1/files", request={"model": "m"})
    ranked = row(4, 4.0, path="/v1/rerank", request=None)  # nothing can be made up for it
    endless = row(6, 6.0, request=None, input_length=10**18)
    found = read(written(tmp_path, [kept, failed, stored, unknown, ranked, endless]))
    assert [due.copy.id for due in found.piece(0)] == ["r0"]
    left_out = {"failed": 1, "not_copyable": 3, "too_long": 1}
    assert found.status() == {"requests": 1, "pieces": 1, "left_out": left_out}


def test_what_has_no_text_and_is_of_a_path_that_the_control_lacks_is_left_out_and_the_rest_is_sent(
    tmp_path: Path,
) -> None:
    async def lacks_vectors(request: Request, writer: asyncio.StreamWriter) -> None:
        if b"embeddings" not in request.line:
            await tokens(request, writer)
            return
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()

    rows = [row(0, 0.0), row(1, 1.0, path="/v1/embeddings", request=None), row(2, 2.0)]
    alone = [row(3, 0.0, path="/v1/embeddings", request=None)]

    async def run() -> None:
        async with engine(lacks_vectors) as control, engine(tokens) as other:
            arms = ArmSpec("control", control.url), ArmSpec("c1", other.url)
            told = experiment(written(tmp_path, rows), *arms)
            async with shadow(tmp_path, told, recorded=replayable) as stage:
                await over(stage)
                done = status(stage)["replay"]
                assert (done["requests"], done["sends"], done["sent"]) == (2, 4, 4)
                assert done["left_out"] == {"not_served": 1}
            assert asked(other) == ["request 0", "request 2"]
            assert stage.books["paired"] == 2 and stage.books["dropped"] == {}
            told = experiment(written(tmp_path, alone), *arms)
            async with shadow(tmp_path, told, recorded=replayable) as stage:
                await until(lambda: bool(status(stage).get("troubles")))
                (why,) = status(stage)["troubles"].values()
                assert why == "the control serves no path of the recording's requests: /v1/embeddings (404)"

    play(run)


def test_speed_requests_and_seconds_say_how_much_of_it_and_slots_without_requests_are_passed_over(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, [row(0, 0.0), row(1, 100.0), row(2, 2000.0), row(3, 4000.0)])
    assert [[due.copy.id for due in read(file).piece(at)] for at in range(3)] == [
        ["r0", "r1"],
        ["r2"],
        ["r3"],
    ]
    assert [due.offset_ns for due in read(file).piece(1)] == [200_000_000]  # 2.0 s is in the slot from 1.8
    assert read(file, seconds=3).status()["requests"] == 3
    assert read(file, requests=2).sizes == [2]
    assert read(file, speed=20.0).sizes == [4]


def test_turns_of_a_conversation_are_told_by_their_session(tmp_path: Path) -> None:
    turns = [row(n, 20.0 * n, session="same", turn=n) for n in range(3)]
    found = read(written(tmp_path, [*turns, row(9, 70.0)])).piece(0)
    assert [due.copy.turn for due in found] == [0, 1, 2, 0]
    assert len({due.copy.root for due in found[:3]}) == 1 and found[3].copy.root != found[0].copy.root


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "there is no request in it; `shadowlane record` writes one"),
        (
            to_line(row(0, 0.0, status=500)),
            "no request that could be replayed (failed when recorded: 1); record requests that are served",
        ),
        (b"{}\n", "not a row of the Mooncake schema"),
        (None, "there is no such file"),
    ],
)
def test_a_recording_that_cannot_be_used_is_told_and_tried_again(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    file = tmp_path / "traffic.jsonl"
    if content is not None:
        file.write_bytes(content)

    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as one:
            told = experiment(file, ArmSpec("control", control.url), ArmSpec("c1", one.url))
            async with shadow(tmp_path, told, recorded=replayable) as stage:
                await until(lambda: why in status(stage).get("troubles", {}).get("the recording", ""))
                written(tmp_path, [row(0, 0.0)])
                await over(stage)
                assert not status(stage)["troubles"]

    play(run)
