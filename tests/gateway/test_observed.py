"""Production's own answers to a part of what is copied are kept as they pass: which, how much, how long."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from gateway.copied import Copy, asked
from gateway.lane_link import LaneLink
from gateway.spec import LimitsSpec, SamplingSpec
from mirror.pair import READ_BYTES
from mirror.sample import is_observed
from mirror.spec import ArmSpec
from routing.types import Prompt
from tests.failures.shadowed import connections, served
from tests.gateway.test_no_cycles import cut, endless, gone, whole
from tests.mirror.scripted import engine, tokens
from tests.mirror.staging import copy_frame, experiment, play, shadow, until
from tests.recording.staging import answer, chat, recorded
from tests.support import SSE_HEAD, TOKEN, Engine, Peer, answers, json_answer, running, streams
from tests.support import until as waited

HEADERS = [(b"Content-Type", b"application/json")]
LANE_BYTES = 10_000


@given(st.integers(0, (1 << 64) - 1), st.floats(0, 1))
def test_one_decision_for_a_conversation_and_of_a_larger_share_no_fewer(root: int, share: float) -> None:
    assert is_observed(b"salt", root, share) == is_observed(b"salt", root, share)
    assert is_observed(b"salt", root, 1.0) and not is_observed(b"salt", root, 0.0)
    assert is_observed(b"salt", root, share) <= is_observed(b"salt", root, min(1.0, share + 0.2))


def test_the_share_of_those_observed_is_the_share_whatever_part_is_copied() -> None:
    found = [is_observed(b"salt", root, 0.25) for root in range(4000)]
    assert 900 < sum(found) < 1100
    assert 430 < sum(found[::2]) < 570


class Written:
    """A lane's transport that keeps what is written."""

    def __init__(self) -> None:
        self.frames: list[Any] = []

    def write(self, frame: bytes) -> None:
        self.frames.append(msgpack.unpackb(frame))

    def writelines(self, frames: list[bytes]) -> None:
        self.frames += map(msgpack.unpackb, frames)

    def get_write_buffer_size(self) -> int:
        return 0


def link_to(share: float, *, lane_bytes: int = 1 << 20) -> tuple[LaneLink, Written]:
    sampling = SamplingSpec("e", None, 1.0, b"salt", observed=share)
    bounds: dict[str, Any] = {"lane_bytes": lane_bytes, "copy_bytes": 4000, "sees_all": True}
    link, written = LaneLink(asyncio.get_running_loop(), "", [sampling], **bounds), Written()
    link.connection_made(written)  # type: ignore[arg-type]
    return link, written


def offer(link: LaneLink, number: int) -> Copy:
    prompt = Prompt("m", (number,), (4,), number, 0, False, None)
    head = asked("/v1/completions", "/v1/completions", HEADERS)
    copy = link.copied(None, f"r{number}", head, b"{}", prompt, 1, 2)
    assert copy is not None
    return copy


def test_all_are_copied_and_the_answers_handed_over_are_those_the_copies_announce() -> None:
    async def go() -> None:
        link, written = link_to(0.5)
        for number in range(100):
            copy = offer(link, number)
            if copy.is_kept:  # as an attempt asks
                link.read(copy, 5, b"piece")
            link.served(copy, 200, "text/event-stream", 4, 6, "complete")
        link._flush()
        copies = {frame["id"]: frame["observed"] for kind, frame in written.frames if kind == "copy"}
        answered = {frame["id"] for kind, frame in written.frames if kind == "served"}
        assert len(copies) == 100 and 20 < len(answered) < 80
        assert {id for id, observed in copies.items() if observed} == answered

    uvloop.run(go())


STEPS = st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["read", "served", "forget"]),
                           st.integers(0, 3000)), max_size=60)  # fmt: skip


@given(STEPS)
def test_answers_under_way_take_no_more_than_the_lane_may_and_nothing_once_they_have_ended(
    steps: list[tuple[int, str, int]],
) -> None:
    async def go() -> None:
        link, _ = link_to(1.0, lane_bytes=LANE_BYTES)
        copies = {number: offer(link, number) for number in range(8)}
        for number, step, size in steps:
            copy = copies[number]
            if step == "read":
                link.read(copy, 5, b"x" * size)
            elif step == "forget":
                link.forget(copy)
            else:
                link.served(copy, 200, "", 4, 6, "complete")
                copies[number] = offer(link, number)
            held = sum(len(body) + READ_BYTES for one in copies.values() for _, body in one.reads)
            assert link.held_bytes == held <= LANE_BYTES
            assert all(not one.reads for one in copies.values() if one.overflowed)
        for copy in copies.values():
            link.served(copy, 200, "", 4, 6, "complete")
        assert link.held_bytes == 0

    uvloop.run(go())


@asynccontextmanager
async def reading(path: str) -> AsyncIterator[list[str]]:
    """A shadow process that takes all it is told; the kinds of the frames."""
    taken, writers = list[str](), list[asyncio.StreamWriter]()

    async def reads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        unpacker = msgpack.Unpacker()
        while data := await reader.read(1 << 16):
            unpacker.feed(data)
            taken.extend(kind for kind, _ in unpacker)
        writer.close()

    server = await asyncio.start_unix_server(reads, path)
    try:
        yield taken
    finally:
        server.close()
        for writer in writers:
            writer.close()


def busy_once() -> Callable[[Peer], Awaitable[None]]:
    """The first answer is cut before its first token and has said something by then; the others are whole."""
    asked: list[Peer] = []

    async def script(peer: Peer) -> None:
        asked.append(peer)
        if len(asked) > 1:
            await streams(TOKEN, "[DONE]")(peer)
        else:
            await peer.send(SSE_HEAD, b": still here\n\n")
            peer.reset()

    return script


@pytest.mark.parametrize(
    ("script", "client"),
    [
        (answers(json_answer(b"{}")), whole),
        (streams(TOKEN, "[DONE]"), whole),
        (cut, whole),
        (busy_once(), whole),
        (endless, gone),
    ],
    ids=["json", "stream", "cut", "cut and begun again", "client gone"],
)
def test_however_an_answer_ends_nothing_of_it_is_kept_by_the_worker(
    script: Callable[[Peer], Awaitable[None]], client: Callable[[int], Awaitable[None]], tmp_path: Path
) -> None:
    async def go() -> None:
        sampling = SamplingSpec("fp8-kv", None, 1.0, b"salt")
        async with (
            running(Engine(script), Engine(script), limits=LimitsSpec(drain_s=5)) as gateway,
            reading(str(gateway.run_dir / "lane.sock")) as taken,
        ):
            assert await gateway.renew(experiments=(sampling,)) is None
            await waited(lambda: connections(str(gateway.run_dir / "lane.sock")) > 0)
            await client(gateway.port)
            await waited(lambda: taken.count("served") == taken.count("copy") == 1)
            assert not any(one.held_bytes for one in gc.get_objects() if isinstance(one, LaneLink))

    uvloop.run(go())


def test_a_copy_whose_answer_is_not_observed_is_a_pair_as_soon_as_the_arms_have_answered(
    tmp_path: Path,
) -> None:
    """For the other one production's answer is waited for, which never comes."""

    async def scene() -> None:
        async with engine(tokens) as control, engine(tokens) as candidate:
            told = experiment(ArmSpec("control", control.url), ArmSpec("c1", candidate.url))
            async with shadow(tmp_path, told, "live", patience_s=3600.0) as stage:
                _, writer = await stage.worker()
                writer.write(copy_frame("observed", 1) + copy_frame("not", 2, observed=False))
                await until(lambda: bool(stage.analysis.of("pair")))
                await until(lambda: control.finished == candidate.finished == 2)
                (pair,) = stage.analysis.of("pair")
                assert (pair["id"], pair["production"]) == ("not", None)
                writer.close()

    play(scene)


def test_what_is_recorded_is_whole_whether_its_experiment_observes_it_or_not(tmp_path: Path) -> None:
    async def scene() -> None:
        async with recorded(tmp_path, Engine(answers(*answer("one two", 20, 2)))) as there:
            samplings = (SamplingSpec("fp8", None, 1.0, b"pepper", observed=0.0),)
            path = str(there.gateway.run_dir / "lane.sock")
            async with reading(path) as taken:
                assert await there.gateway.renew(experiments=samplings) is None
                await waited(lambda: connections(path) > 0)
                for n in range(3):
                    assert await served(there.gateway, chat(f"hello {n}"))
                rows = await there.ended()
                await waited(lambda: taken.count("copy") == 3)
                assert "served" not in taken
        assert [(row.status, row.output_length) for row in rows] == [(200, 2)] * 3

    asyncio.run(scene())
