"""While nothing is copied an experiment rests: it sends nothing, moves no share, and begins cold after it."""

import asyncio
from collections.abc import Callable
from random import Random
from time import monotonic_ns
from typing import Any

import msgpack
import pytest

from emulator.params import EngineParams
from emulator.server import start
from mirror.admit import Phase
from mirror.arms import Arm
from mirror.comparison import Comparison
from mirror.frames import Copy, read_frame
from mirror.matching import SLICE_NS
from mirror.room import Room
from mirror.spec import ArmSpec, MirrorExperiment, ShadowSpec, SlotSpec
from tests.mirror.scripted import engine, hang, tokens
from tests.mirror.staging import copy_frame, experiment, play, until


def copy(id: str, root: int = 2, turn: int = 0) -> Copy:
    frame = read_frame(msgpack.unpackb(copy_frame(id, root, turn)))
    assert isinstance(frame, Copy)
    return frame


def comparison(told: MirrorExperiment, pairs: list[dict[str, Any]], **more: Any) -> Comparison:
    one = Comparison(
        told,
        ShadowSpec("", (told,)),
        rng=Random(1),
        loop=asyncio.get_running_loop(),
        deliver=pairs.append,
        **{"room": Room(1 << 30, told.max_inflight), **more},
    )
    one.phase = Phase("live", 1)
    return one


def by_hand(one: Comparison, lacking: list[str], rests: bool) -> None:
    one.switch(rests)


def by_the_analysis(one: Comparison, lacking: list[str], rests: bool) -> None:
    one.phase = Phase("paused" if rests else "live", 1)


def for_want_of_an_arm(one: Comparison, lacking: list[str], rests: bool) -> None:
    lacking[:] = ["c1"] if rests else []


Rests = Callable[[Comparison, list[str], bool], None]


@pytest.mark.parametrize("rests", [by_hand, by_the_analysis, for_want_of_an_arm])
def test_a_span_in_which_nothing_was_copied_is_no_part_of_what_the_share_is_set_by(rests: Rests) -> None:
    async def run() -> None:
        async with engine(tokens) as control:
            lacking: list[str] = []
            one = comparison(experiment(ArmSpec("control", control.url)), [], lacking=lambda: lacking)
            one.tick()  # a slice begins
            rests(one, lacking, True)
            one.tick()
            rests(one, lacking, False)
            assert one.matching.look(monotonic_ns() + 2 * SLICE_NS, {"control": 0}) is None
            one.close()

    play(run)


@pytest.mark.parametrize("rests", [by_hand, by_the_analysis, for_want_of_an_arm])
def test_pairs_are_marked_as_warming_up_again_after_it(rests: Rests) -> None:
    async def run() -> None:
        async with engine(tokens) as control:
            lacking: list[str] = []
            pairs: list[dict[str, Any]] = []
            told = experiment(ArmSpec("control", control.url), warm_up_s=0.2)
            one = comparison(told, pairs, lacking=lambda: lacking)

            async def paired(id: str) -> str | None:
                one.take(copy(id))
                await until(lambda: not one.joiner.inflight)
                one.joiner.expire(monotonic_ns() + 10**12)  # production's answer is not waited for
                mark: str | None = pairs[-1]["mark"]
                return mark

            number = 0
            while await paired(f"before {number}") is not None:
                number += 1
            rests(one, lacking, True)
            one.tick()
            rests(one, lacking, False)
            assert await paired("after") == "warm_up"
            one.close()

    play(run)


@pytest.mark.parametrize("rests", [by_hand, by_the_analysis, for_want_of_an_arm])
def test_a_copy_that_comes_meanwhile_is_sent_to_no_arm(rests: Rests) -> None:
    """As such do: a worker hands over what it sampled before it heard of the pause."""

    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as c1:
            lacking: list[str] = []
            told = experiment(ArmSpec("control", control.url), ArmSpec("c1", c1.url))
            one = comparison(told, [], lacking=lambda: lacking)
            one.take(copy("before", 2))
            await until(lambda: not one.joiner.inflight)
            rests(one, lacking, True)
            one.take(copy("during", 4))
            assert not any(arm.reading for arm in one.arms)
            reason = "paused" if rests is not for_want_of_an_arm else "arm_not_ready"
            assert one.books()["dropped"][reason] == 1
            rests(one, lacking, False)
            one.take(copy("after", 6))
            await until(lambda: not one.joiner.inflight)
            assert len(control.requests) == len(c1.requests) == 2
            one.close()

    play(run)


def test_no_conversation_outlasts_a_pause_by_hand_for_its_turns_meanwhile_were_lost() -> None:
    async def run() -> None:
        async with engine(tokens) as control:
            one = comparison(experiment(ArmSpec("control", control.url)), [])
            one.take(copy("first", 2))
            await until(lambda: not one.joiner.inflight)
            one.switch(True)
            one.switch(False)
            one.take(copy("second", 2, 1))
            one.take(copy("another", 4))
            await until(lambda: not one.joiner.inflight)
            assert one.books()["dropped"] == {"joined_late": 1} and len(control.requests) == 2
            one.close()

    play(run)


def test_an_answer_that_a_pause_gives_up_has_no_tokens_to_force() -> None:
    """The control has said some: they would be sent to all arms, after the pause."""
    slow = EngineParams(model="llama", speed=1.0, hiccup_rate=0.0, output_tokens=500.0, trace_replay=True)

    async def run() -> None:
        control, other = await start(slow), await start(slow)
        arms = ArmSpec("control", control.url, kind="vllm"), ArmSpec("c1", other.url, kind="vllm")
        one = comparison(experiment(*arms), [])
        try:
            one.phase = Phase("forced", 1)
            forcing = one._sequels.now
            assert forcing is not None
            await until(lambda: forcing.ready)
            one.take(copy("a"))
            await until(lambda: one.joiner.held_bytes > 8_000)
            one.switch(True)
            assert not any(arm.reading for arm in one.arms)
            assert one.books()["dropped"] == {"paused": 1}
        finally:
            one.close()
            await control.close()
            await other.close()

    play(run)


def test_no_arm_is_brought_for_a_slot_while_it_is_paused() -> None:
    async def run() -> None:
        brought: list[str] = []

        async def bring(arm: Arm) -> str | None:
            brought.append(arm.spec.name)
            return None

        async with engine(hang) as control:
            told = experiment(ArmSpec("control", control.url), slots=SlotSpec(0.2, ()))
            one = comparison(told, [], bring=bring)
            one.switch(True)
            for _ in range(20):
                await asyncio.sleep(0)
            assert brought == []
            one.switch(False)
            await until(lambda: bool(brought))
            one.stop()
            one.close()

    play(run)
