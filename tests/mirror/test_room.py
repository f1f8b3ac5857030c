"""The memory of copies is bounded as answers grow, and who wants no more than its share of it gets that."""

import asyncio
import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirror.arms import Arm
from mirror.memory import rss_bytes
from mirror.pair import READ_BYTES, Joiner
from mirror.room import Holder, Room
from mirror.spec import ArmSpec, SlotSpec
from tests.mirror.scripted import SSE_HEAD, Request, chunk, engine, hang, tokens
from tests.mirror.staging import copy_frame, experiment, play, served_frame, shadow, until
from tests.mirror.test_pause import comparison, copy

MIB = 1 << 20
LIMIT, COPIES = 1_000, 4
SHARE = LIMIT // COPIES


class Guests:
    """Copies that ask for room, as those of an experiment do."""

    def __init__(self) -> None:
        self.room = Room(LIMIT, COPIES)
        self.open: dict[int, Holder] = {}
        self.gave_way: list[tuple[int, int]] = []  # who, and how much it held

    def enter(self, number: int, size: int, *, begins: bool = False) -> bool:
        if not self.room.make(size, begins=begins):
            return False
        self.open[number] = self.room.enter(lambda: self._leave(number))
        self.room.hold(self.open[number], size)
        return True

    def grow(self, number: int, size: int) -> bool:
        holder = self.open[number]
        if not self.room.make(size, held_bytes=holder.held_bytes):
            return False
        self.room.hold(holder, size)
        return True

    def _leave(self, number: int) -> None:
        self.gave_way.append((number, self.open[number].held_bytes))
        self.room.leave(self.open.pop(number))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 400)), max_size=60))
def test_never_is_more_held_than_there_is_and_nobody_gives_way_who_holds_no_more_than_its_share(
    asked: list[tuple[int, int]],
) -> None:
    guests = Guests()
    for number, size in asked:
        before = len(guests.gave_way)
        if number in guests.open:
            wants = guests.open[number].held_bytes + size
            got = guests.grow(number, size)
        else:
            wants = size
            got = guests.enter(number, size)
        assert all(held > SHARE for _, held in guests.gave_way[before:])
        assert got or wants > SHARE or len(guests.open) >= COPIES, "its share was refused to it"
        assert guests.room.held_bytes == sum(one.held_bytes for one in guests.open.values()) <= LIMIT


def test_the_greatest_gives_way_first_and_no_more_of_them_than_must() -> None:
    guests = Guests()
    for number, size in enumerate((300, 400, 290)):
        assert guests.enter(number, size)
    assert guests.enter(3, 200)
    assert guests.gave_way == [(1, 400)]


def test_who_is_beyond_its_share_pushes_nobody_out() -> None:
    """Copies as large as each other would push each other out for ever, and none would end."""
    guests = Guests()
    assert guests.enter(0, 500) and guests.enter(1, 500)
    assert not guests.enter(2, 500) and not guests.grow(0, 1)
    assert guests.gave_way == []


def test_a_conversation_begins_in_three_quarters_and_those_that_run_have_all() -> None:
    guests = Guests()
    assert guests.enter(0, 240, begins=True) and guests.enter(1, 240, begins=True)
    assert guests.enter(2, 240, begins=True)
    assert not guests.enter(3, 240, begins=True)
    assert guests.enter(3, 240) and guests.gave_way == []


def answer(arm: str, size: int) -> dict[str, Any]:
    return {"arm": arm, "twin": 0, "order": 0, "reads": [(1, b"x" * size)], "ending": "complete"}


class Joined:
    """A joiner whose copies have `limit_bytes`, in shares for two."""

    def __init__(self, limit_bytes: int) -> None:
        self.pairs: list[dict[str, Any]] = []
        self.given_up: list[str] = []
        self.room = Room(limit_bytes, 2)
        self.joiner = Joiner(
            "e",
            self.pairs.append,
            patience_ns=10,
            deadline_ns=100,
            room=self.room,
            gave_up=lambda id, head: self.given_up.append(id),
        )

    def open(self, *ids: str) -> None:
        for id in ids:
            self.joiner.open(id, {"root": 2}, [("control", 0), ("c1", 0)], 10, 0)


def test_a_copy_whose_answer_finds_no_room_is_given_up_whole_and_booked_as_overload() -> None:
    one = Joined(1_000)
    one.open("a", "b")
    assert one.joiner.grows("a", ("control", 0), 400) and one.joiner.grows("a", ("c1", 0), 400)
    assert one.joiner.grows("b", ("c1", 0), 100)
    assert not one.joiner.grows("a", ("c1", 0), 100)
    assert one.given_up == ["a"] and not one.joiner.is_open("a")
    assert not one.joiner.answered("a", answer("c1", 500), 5) and one.pairs == []
    assert one.joiner.books()["dropped"] == {"overload": 1} and one.joiner.inflight == 1
    assert one.room.held_bytes == one.joiner.held_bytes == 110


def test_what_an_answer_held_as_it_came_is_what_it_holds_when_it_has_ended() -> None:
    one = Joined(10_000)
    one.open("a")
    assert one.joiner.grows("a", ("control", 0), 300 + READ_BYTES)
    assert one.joiner.answered("a", answer("control", 300), 5)
    assert one.joiner.held_bytes == 10 + 300 + READ_BYTES
    assert one.joiner.grows("a", ("c1", 0), 900 + READ_BYTES)
    assert one.joiner.answered("a", answer("c1", 100), 5), "of one too large its beginning is kept"
    assert one.joiner.held_bytes == 400 + 2 * READ_BYTES, "and the requests are needed no more"


def test_productions_answer_counts_while_arms_answer_and_not_where_it_completes_a_pair() -> None:
    one = Joined(1_000)
    one.open("a", "b")
    one.joiner.served("a", answer("production", 100))
    assert one.joiner.held_bytes == 20 + 100 + READ_BYTES
    one.joiner.served("b", answer("production", 900))
    assert one.given_up == ["b"] and one.joiner.books()["dropped"] == {"overload": 1}
    one.joiner.answered("a", answer("control", 1), 5)
    one.joiner.answered("a", answer("c1", 1), 5)
    one.open("c")
    one.joiner.answered("c", answer("control", 1), 5)
    one.joiner.answered("c", answer("c1", 1), 5)
    one.joiner.served("c", answer("production", 5_000))
    assert [pair["id"] for pair in one.pairs] == ["a", "c"] and one.room.held_bytes == 0


def test_a_copy_that_lacks_only_productions_answer_gives_way_as_a_pair() -> None:
    one = Joined(1_000)
    one.open("a", "b")
    one.joiner.answered("a", answer("control", 400), 5)
    one.joiner.answered("a", answer("c1", 200), 5)
    assert one.joiner.grows("b", ("c1", 0), 400) and one.pairs[0]["production"] is None
    assert one.given_up == [] and one.joiner.books()["dropped"] == {}


PIECE = b"x" * 65_536
LARGE, SMALL, HELD_BYTES = 12, 20, 48 * MIB


def test_arms_that_answer_much_and_hang_take_no_more_memory_than_is_set_and_small_copies_go_on(
    tmp_path: Path,
) -> None:
    """All the large answers together are four times as much as may be held; the control says little and hangs
    likewise."""
    wrote: Counter[int] = Counter()
    peaks: list[tuple[int, int]] = []

    async def run() -> None:
        async def by_its_root(request: Request, writer: asyncio.StreamWriter, size: int) -> None:
            root = int(json.loads(request.body)["messages"][0]["content"].split()[-1])
            if root >= 1_000:
                await tokens(request, writer)
                return
            writer.write(SSE_HEAD)
            for _ in range(size // len(PIECE)):
                writer.write(chunk(PIECE))
                await writer.drain()
                peaks.append((stage.serving.room.held_bytes, rss_bytes()))
            wrote[root] += 1
            await asyncio.Event().wait()

        little, much = partial(by_its_root, size=len(PIECE)), partial(by_its_root, size=15 * MIB)
        async with engine(little) as control, engine(much) as other:
            arms = ArmSpec("control", control.url), ArmSpec("c1", other.url)
            before = rss_bytes()
            async with shadow(tmp_path, experiment(*arms), held_bytes=HELD_BYTES, drain_s=0.0) as stage:
                one = stage.serving.comparisons["fp8-kv"]
                _, lane = await stage.worker()
                for root in range(0, 2 * LARGE, 2):
                    lane.write(copy_frame(f"{root}", root) + served_frame(f"{root}"))
                await until(lambda: one.joiner.books()["admitted"] == LARGE)
                # Each has said all it has, or was given up.
                await until(
                    lambda: all(
                        wrote[root] == 2 or not one.joiner.is_open(f"{root}")
                        for root in range(0, 2 * LARGE, 2)
                    )
                )
                left = {reading.id for reading in one.arms[0].reading}
                assert left == {reading.id for reading in one.arms[1].reading}, "given up in all arms alike"
                gone = LARGE - len(left)
                assert one.joiner.books()["dropped"] == {"overload": gone} and 0 < gone < LARGE
                for root in range(1_000, 1_000 + 2 * SMALL, 2):
                    lane.write(copy_frame(f"{root}", root) + served_frame(f"{root}"))
                await until(lambda: len(stage.analysis.of("pair")) == SMALL)
                (first, *_) = {f"{root}" for root in range(0, 2 * LARGE, 2)} - left
                lane.write(copy_frame(f"{first} again", int(first), turn=1))  # its conversation goes with it
                lane.write(copy_frame("last", 9_998) + served_frame("last"))
                await until(lambda: len(stage.analysis.of("pair")) == SMALL + 1)
                assert [(arm.answers, arm.failures) for arm in one.arms] == [(SMALL + 1, 0)] * 2
                assert len(control.requests) == len(other.requests) == LARGE + SMALL + 1
                lane.close()
            assert stage.books["paired"] == SMALL + 1 and stage.books["open"] == 0
            assert stage.books["admitted"] == LARGE + SMALL + 2
            assert set(stage.books["dropped"]) == {"overload", "stopped"}
            assert max(held for held, _ in peaks) <= HELD_BYTES
            assert max(rss for _, rss in peaks) - before < HELD_BYTES + 100 * MIB

    play(run)


def test_a_copy_that_is_given_up_while_arms_take_turns_is_kept_for_no_later_turn() -> None:
    async def run() -> None:
        async def bring(arm: Arm) -> str | None:
            return None

        async with engine(hang) as control, engine(hang) as other:
            arms = ArmSpec("control", control.url), ArmSpec("c1", other.url)
            one = comparison(experiment(*arms, slots=SlotSpec(30.0, ())), [], bring=bring)
            slots = one._slots
            assert slots is not None
            await until(lambda: slots.block is not None)
            one.take(copy("a"))
            assert slots.block is not None and list(slots.block.held) == ["a"]
            assert not one.joiner.grows("a", ("control", 0), 1 << 31)
            assert not slots.block.held and not one.arms[0].reading
            assert one.joiner.books()["dropped"] == {"overload": 1}
            one.stop()
            one.close()

    play(run)
