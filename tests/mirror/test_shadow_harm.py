"""What goes wrong around the shadow process: it outlives it, and its books still close."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import pytest

from mirror.shadow import Shadow
from mirror.spec import ArmSpec, ShadowSpec
from tests.mirror import scripted
from tests.mirror.scripted import Script, engine, tokens
from tests.mirror.staging import copy_frame, experiment, phase_frame, play, served_frame, shadow, until


@pytest.mark.parametrize(
    ("script", "ending"),
    [
        (scripted.hang, "timeout"),
        (scripted.stall, "timeout"),
        (scripted.drip, "timeout"),
        (scripted.reset, "cut"),
        (scripted.flood, "too_large"),
        (scripted.nonsense, "malformed"),
        (scripted.busy, "complete"),
    ],
)
def test_an_arm_that_misbehaves_has_an_ending_and_the_other_is_not_harmed(
    tmp_path: Path, script: Script, ending: str
) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(script) as bad:
            told = experiment(
                ArmSpec("control", control.url), ArmSpec("bad", bad.url), timeout_s=4.0, first_byte_s=3.0
            )
            async with shadow(tmp_path, told, answer_bytes=1 << 20) as stage:
                _, lane = await stage.worker()
                for k in range(3):
                    lane.write(copy_frame(str(k), k) + served_frame(str(k)))
                await until(lambda: len(stage.analysis.of("pair")) == 3)
                lane.close()
            for pair in stage.analysis.of("pair"):
                endings = {each["arm"]: each["ending"] for each in pair["answers"]}
                assert endings == {"control": "complete", "bad": ending}
                kept = sum(len(body) for each in pair["answers"] for _, body in each["reads"])
                assert kept <= 1 << 20 or ending == "too_large"
            assert stage.books["paired"] == 3 and stage.books["dropped"] == {}

    play(run)


def test_an_arm_that_refuses_connections_is_an_answer_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as gone:
            nobody = gone.url
        async with engine(tokens) as control:
            told = experiment(ArmSpec("control", control.url), ArmSpec("gone", nobody))
            async with shadow(tmp_path, told) as stage:
                _, lane = await stage.worker()
                lane.write(copy_frame("a", 8) + served_frame("a"))
                await until(lambda: bool(stage.analysis.of("pair")))
                lane.close()
            (pair,) = stage.analysis.of("pair")
            refused = next(each for each in pair["answers"] if each["arm"] == "gone")
            assert (refused["ending"], refused["status"], refused["head_ns"]) == ("refused", None, None)

    play(run)


def test_overload_sheds_whole_conversations_in_all_arms_together(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(scripted.hang) as control, engine(tokens) as fast:
            told = experiment(
                ArmSpec("control", control.url), ArmSpec("fp8", fast.url), max_inflight=2, timeout_s=1.0
            )
            async with shadow(tmp_path, told) as stage:
                _, lane = await stage.worker()
                for root in range(5):
                    lane.write(copy_frame(f"{root}", root) + served_frame(f"{root}"))
                await until(lambda: len(stage.analysis.of("pair")) == 2)
                for root in range(5):
                    lane.write(copy_frame(f"{root} again", root, turn=1) + served_frame(f"{root} again"))
                await until(lambda: len(stage.analysis.of("pair")) == 4)
                lane.close()
            assert {pair["root"] for pair in stage.analysis.of("pair")} == {0, 1}
            assert stage.books["dropped"] == {"overload": 6}
            assert len(control.requests) == len(fast.requests) == 4

    play(run)


def test_memory_held_is_a_reason_to_shed(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(scripted.hang) as control:
            told = experiment(ArmSpec("control", control.url), timeout_s=0.5, max_inflight=5)
            async with shadow(tmp_path, told, held_bytes=40_000) as stage:
                _, lane = await stage.worker()
                for root in range(5):
                    lane.write(copy_frame(str(root), root, body=b"x" * 4000) + served_frame(str(root)))
                await until(lambda: len(stage.analysis.of("pair")) == 3)
                lane.close()
            assert stage.books["dropped"] == {"overload": 2}

    play(run)


@pytest.mark.parametrize(
    "bytes_",
    [
        b"\xc1",
        b"GET / HTTP/1.1\r\n\r\n",
        msgpack.packb(["copy", {"experiment": "fp8-kv"}]),
        b"\xdd\xff\xff\xff\xff",
        b"\x91" * 5000,
        b"\xc6\x7f\xff\xff\xff" + b"x" * 5_000_000,
    ],
)
def test_a_malformed_stream_closes_that_connection_only(tmp_path: Path, bytes_: bytes) -> None:
    async def run() -> None:
        async with engine(tokens) as control:
            told = experiment(ArmSpec("control", control.url))
            async with shadow(tmp_path, told, copy_bytes=1 << 20, lane_bytes=1 << 20) as stage:
                _, good = await stage.worker()
                reader, bad = await stage.worker()
                try:
                    bad.write(bytes_)
                    await bad.drain()
                    async with asyncio.timeout(30):
                        assert await reader.read() == b""
                except ConnectionError:
                    pass  # closed while writing still
                good.write(copy_frame("a", 8) + served_frame("a"))
                await until(lambda: bool(stage.analysis.of("pair")))
                good.close()
                bad.transport.abort()
            assert stage.analysis.of("status")[-1]["lane"]["malformed"] == 1

    play(run)


def test_pairs_wait_for_an_analysis_process_that_is_away_and_what_finds_no_room_is_counted(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with engine(tokens) as control:
            told = experiment(ArmSpec("control", control.url))
            async with shadow(tmp_path, told, phase="absent", lane_bytes=20_000) as stage:
                _, lane = await stage.worker()
                n = 40
                for k in range(n):
                    lane.write(copy_frame(str(k), 2 * k) + served_frame(str(k)))
                await until(lambda: control.finished == 2 * n)
                await asyncio.sleep(0.05)
                await stage.analysis.open("live")
                await until(lambda: bool(stage.analysis.of("books")))
                books = stage.books
                await stage.analysis.close()  # and away again, and back
                await stage.analysis.open("live")
                lane.write(copy_frame("last", 2) + served_frame("last"))
                await until(lambda: stage.analysis.of("pair")[-1]["id"] == "last")
                lane.close()
            assert books["admitted"] == n and books["open"] == 0
            assert 0 < books["paired"] < n and books["dropped"] == {"analysis_down": n - books["paired"]}
            assert len(stage.analysis.of("pair")) == books["paired"] + 1

    play(run)


def test_a_phase_frame_that_makes_no_sense_costs_a_reconnect_and_nothing_else(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            engine(tokens) as control,
            shadow(tmp_path, experiment(ArmSpec("control", control.url))) as stage,
        ):
            stage.analysis.tell(phase_frame("fp8-kv", "sideways"))
            await until(lambda: stage.analysis.connections == 2)
            _, lane = await stage.worker()
            lane.write(copy_frame("a", 8) + served_frame("a"))
            await until(lambda: bool(stage.analysis.of("pair")))
            lane.close()

    play(run)


def test_a_stop_waits_for_answers_under_way_and_drops_what_does_not_end(tmp_path: Path) -> None:
    async def run() -> None:
        go_on = asyncio.Event()

        async def slow(request: scripted.Request, writer: asyncio.StreamWriter) -> None:
            await go_on.wait()
            await tokens(request, writer)

        async with engine(slow) as control:
            async with shadow(tmp_path, experiment(ArmSpec("control", control.url))) as stage:
                _, lane = await stage.worker()
                lane.write(copy_frame("a", 8) + served_frame("a"))
                await until(lambda: bool(control.requests))
                comparison = stage.serving.comparisons["fp8-kv"]
                stage.stop.set()
                await until(lambda: comparison._stopping)
                lane.write(copy_frame("late", 10))
                await until(lambda: comparison.joiner.books()["dropped"] == {"stopped": 1})
                go_on.set()
                await until(lambda: bool(stage.analysis.of("pair")))
                lane.close()
            assert stage.books["paired"] == 1 and stage.books["dropped"] == {"stopped": 1}
        async with engine(scripted.hang) as control:
            async with shadow(tmp_path, experiment(ArmSpec("control", control.url)), drain_s=0.2) as stage:
                _, lane = await stage.worker()
                lane.write(copy_frame("a", 8))
                await until(lambda: bool(control.requests))
                lane.close()
            assert stage.books["paired"] == 0 and stage.books["dropped"] == {"stopped": 1}

    play(run)


def test_a_socket_left_by_a_dead_process_is_replaced_and_none_is_left_behind(tmp_path: Path) -> None:
    async def run() -> None:
        server = await asyncio.start_unix_server(lambda r, w: None, str(tmp_path / "lane.sock"))
        server.close()
        (tmp_path / "lane.sock").touch()
        async with (
            engine(tokens) as control,
            shadow(tmp_path, experiment(ArmSpec("control", control.url))) as stage,
        ):
            _, lane = await stage.worker()
            lane.write(copy_frame("a", 8) + served_frame("a"))
            await until(lambda: bool(stage.analysis.of("pair")))
            lane.close()
        assert not (tmp_path / "lane.sock").exists()

    play(run)


@pytest.mark.parametrize("value", [2**64, "\ud800", object()])
def test_a_pair_that_no_frame_can_hold_is_dropped_with_its_reason(tmp_path: Path, value: Any) -> None:
    async def run() -> None:
        told = experiment(ArmSpec("control", "http://127.0.0.1:9"))
        one = Shadow(ShadowSpec(str(tmp_path), (told,)), Random(1)).comparisons["fp8-kv"]
        answer = {"arm": "control", "twin": 0, "order": 0, "reads": []}
        for id, said in (("a", value), ("b", 2**63)):
            assert one.joiner.open(id, {"said": said}, [("control", 0)], 1, 0, alone=True)
            one.joiner.answered(id, answer, 0)
        books = one.joiner.books()
        assert (books["admitted"], books["paired"], books["open"]) == (2, 1, 0)
        assert books["dropped"] == {"unpackable": 1}
        one.close()

    play(run)
