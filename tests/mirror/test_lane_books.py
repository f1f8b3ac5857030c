"""Every copy that a worker samples ends confirmed by the shadow process, or dropped for a reason and told."""

import asyncio
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gateway.copied import asked
from gateway.lane_link import LaneLink
from gateway.spec import SamplingSpec
from mirror.lane import Lane
from mirror.spec import ArmSpec
from routing.types import Prompt
from tests.mirror.scripted import engine, tokens
from tests.mirror.staging import experiment, play, shadow, until

HEADERS = [(b"content-type", b"application/json")]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("drop"), st.sampled_from(["too_large", "paused"]), st.integers(1, 3)),
        st.tuples(st.just("tell"), st.just(0), st.just(0)),
        st.tuples(st.just("take"), st.integers(0, 5), st.booleans()),
        st.tuples(st.just("part"), st.integers(0, 5), st.just(0)),
    ),
    max_size=60,
)


@given(steps)
def test_sampled_is_taken_under_way_and_dropped_whatever_happens_to_the_connection(
    some: list[tuple[str, int, int]],
) -> None:
    """Against a shadow process that takes some of what was sent, confirms it, or goes without a word."""
    lane, asked = Lane(3), 0
    sent: list[str | tuple[str, int]] = []  # on this connection, in order
    taken, missed = 0, Counter[str]()  # on this connection
    all_taken, all_missed = 0, Counter[str]()  # that were confirmed
    for what, one, other in some:
        if what == "offer":
            asked += 1
            if lane.offer(bytes(one), other, True):
                sent.append("copy")
        elif what == "drop":
            asked += other
            lane.drop(str(one), other)
        elif what == "tell":
            sent += list(lane.missed().items())
        elif what == "take":
            for frame in sent[:one]:
                if isinstance(frame, str):
                    taken += 1
                else:
                    missed[frame[0]] += frame[1]
            del sent[:one]
            if other:
                lane.heard(taken, missed)
        else:
            under_way = lane.under_way
            assert lane.parted(unwritten=one) == under_way
            all_taken, all_missed = lane.taken, all_missed + Counter(lane._known)
            sent, taken, missed = [], 0, Counter()
        assert lane.sampled == asked
        assert lane.taken + lane.under_way + sum(lane.dropped.values()) == asked
        assert lane.taken >= all_taken and lane.under_way >= 0
    lane.parted()
    told = Counter(lane._known)
    for reason, n in lane.missed().items():
        told[reason] += n
    assert told == Counter(lane.dropped)  # none is told twice to who confirmed it, none is forgotten
    assert lane.taken + sum(lane.dropped.values()) == asked


def link_to(run_dir: Path) -> LaneLink:
    sampling = SamplingSpec("fp8-kv", None, 1.0, b"salt")
    loop = asyncio.get_running_loop()
    path = str(run_dir / "lane.sock")
    return LaneLink(loop, path, [sampling], lane_bytes=1 << 20, copy_bytes=1 << 20, sees_all=True)


def offer(link: LaneLink, number: int, turns: int = 0) -> None:
    prompt = Prompt("m", (number,), (4,), number, turns, False, None)
    body = b'{"model":"llama","messages":[{"role":"user","content":"%d"}]}' % number
    path = "/v1/chat/completions"
    link.copied(None, f"r{number}.{turns}", asked(path, path, HEADERS), body, prompt, 1, 2)


async def connected(link: LaneLink, run_dir: Path) -> None:
    await asyncio.get_running_loop().create_unix_connection(lambda: link, str(run_dir / "lane.sock"))


def test_the_shadow_process_confirms_what_it_took_and_its_books_say_the_same(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control:
            told = experiment(ArmSpec("control", control.url))
            async with shadow(tmp_path, told, patience_s=0.1) as stage:
                link = link_to(tmp_path)
                lane = link.experiments[0].lane
                offer(link, 99)  # nobody is there yet
                await connected(link, tmp_path)
                for number in range(20):
                    offer(link, number)
                link.tell_missed()
                assert (lane.sampled, lane.under_way, dict(lane.dropped)) == (21, 20, {"lane_down": 1})
                await until(lambda: lane.taken == 20)
                stage.stop.set()
                await until(lambda: link._transport is None)
            assert (lane.sampled, lane.under_way, dict(lane.dropped)) == (21, 0, {"lane_down": 1})
            assert stage.books["admitted"] == 21 and stage.books["dropped"] == {"lane_down": 1}

    play(run)


def test_what_a_stop_left_unread_is_counted_by_the_worker_and_only_there(tmp_path: Path) -> None:
    """The shadow process ends while a worker goes on sending."""

    async def run() -> None:
        async with engine(tokens) as control:
            async with shadow(tmp_path, experiment(ArmSpec("control", control.url)), patience_s=0.1) as stage:
                link = link_to(tmp_path)
                lane = link.experiments[0].lane
                await connected(link, tmp_path)
                number = 0
                while link._transport is not None:
                    offer(link, number)
                    number += 1
                    if number == 200:
                        stage.stop.set()
                    await asyncio.sleep(0)
            assert lane.sampled == number == lane.taken + sum(lane.dropped.values())
            assert stage.books["admitted"] == lane.taken and set(lane.dropped) <= {"lane_lost", "lane_down"}

    play(run)


def test_copies_in_a_lane_that_breaks_are_lost_counted_and_told_to_the_next(tmp_path: Path) -> None:
    """The first shadow process never reads; its conversations end, since they lost a turn."""

    async def run() -> None:
        stuck: list[asyncio.StreamWriter] = []

        async def never_reads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            stuck.append(writer)

        path = tmp_path / "lane.sock"
        server = await asyncio.start_unix_server(never_reads, str(path))
        link = link_to(tmp_path)
        await connected(link, tmp_path)
        lane = link.experiments[0].lane
        for number in range(10):
            offer(link, number)
        await until(lambda: bool(stuck) and not link._waiting)
        stuck[0].transport.abort()
        await until(lambda: link._transport is None)
        server.close()
        assert (lane.taken, lane.under_way) == (0, 0)
        offer(link, 10)
        assert dict(lane.dropped) == {"lane_lost": 10, "lane_down": 1}

        async with engine(tokens) as control:
            async with shadow(tmp_path, experiment(ArmSpec("control", control.url)), patience_s=0.1) as stage:
                await connected(link, tmp_path)
                offer(link, 3, turns=1)  # its first turn was lost
                offer(link, 20)
                link.tell_missed()
                await until(lambda: lane.taken == 1)
                stage.stop.set()
                await until(lambda: link._transport is None)
            assert stage.books["admitted"] == 13 == lane.sampled
            assert stage.books["dropped"] == {"lane_lost": 10, "lane_down": 1, "joined_late": 1}

    play(run)
