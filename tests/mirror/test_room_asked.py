"""Whatever an experiment sends asks for memory first: duplicates, and what follows upon answers, too."""

import asyncio
from dataclasses import replace
from pathlib import Path

from emulator.params import EngineParams
from emulator.server import start
from mirror import forced
from mirror.admit import Phase
from mirror.comparison import Comparison
from mirror.room import Room
from mirror.spec import ArmSpec
from tests.mirror.forcible import forcible
from tests.mirror.scripted import Request, engine, tokens
from tests.mirror.staging import copy_frame, experiment, play, served_frame, shadow, until
from tests.mirror.test_pause import comparison, copy


async def ready(one: Comparison) -> None:
    """Every arm has shown that it decodes what it is given."""
    one.phase = Phase("forced", 1)
    sequel = one._sequels.now
    assert sequel is not None
    await until(lambda: sequel.ready)


def test_a_conversation_that_is_sent_three_times_needs_room_for_three() -> None:
    body = len(copy("a").body)

    async def run() -> None:
        async with engine(tokens) as control:
            told = experiment(ArmSpec("control", control.url, kind="vllm"), rate=3.0, salt=b"s")
            for room, dropped in ((Room(7 * body, 1), {"overload": 1}), (Room(9 * body, 1), {})):
                one = comparison(told, [], room=room)
                one.take(copy("a"))
                assert one.books()["dropped"] == dropped
                assert len(one.arms[0].reading) == (0 if dropped else 3)
                one.close()

    play(run)


def test_what_follows_upon_an_answer_is_not_sent_where_there_is_no_room_for_it() -> None:
    goes_on = asyncio.Event()

    async def run() -> None:
        async def later(request: Request, writer: asyncio.StreamWriter) -> None:
            if forced.PATH.encode() not in request.line:
                await goes_on.wait()
            await forcible()(request, writer)

        async with engine(later) as control, engine(forcible()) as other:
            room = Room(100_000, 1)
            arms = ArmSpec("control", control.url), ArmSpec("c1", other.url)
            one = comparison(experiment(*arms), [], room=room)
            await ready(one)
            one.take(copy("a", 4))
            await until(lambda: len(control.requests) == 2)
            room.hold(room.enter(lambda: None), 100_000 - room.held_bytes - 500)
            goes_on.set()
            await until(lambda: not one.joiner.inflight)
            asked = [
                each for each in (*control.requests, *other.requests) if forced.PATH.encode() in each.line
            ]
            assert one.books()["dropped"] == {"overload": 1} and len(asked) == 2, "only whether they can"
            assert one.books()["admitted"] == 2 and one.joiner.is_open("a"), (
                "it is no loss to the copy itself"
            )
            assert room.held_bytes <= 100_000
            one.close()

    play(run)


def test_upon_an_answer_that_is_given_up_nothing_follows() -> None:
    """The control has said some tokens: they would be sent to all arms."""
    slow = EngineParams(model="llama", speed=1.0, hiccup_rate=0.0, output_tokens=500.0, trace_replay=True)

    async def run() -> None:
        control, other = await start(slow), await start(slow)
        arms = ArmSpec("control", control.url, kind="vllm"), ArmSpec("c1", other.url, kind="vllm")
        one = comparison(experiment(*arms), [])
        try:
            await ready(one)
            one.take(copy("a"))
            await until(lambda: one.joiner.held_bytes > 8_000)
            assert not one.joiner.grows("a", ("c1", 0), 1 << 40)
            assert not any(arm.reading for arm in one.arms)
            assert one.books()["admitted"] == 1 and one.books()["dropped"] == {"overload": 1}
        finally:
            one.close()
            await control.close()
            await other.close()

    play(run)


def test_experiments_that_change_while_they_run_have_the_room_that_is_said_then(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control:
            async with shadow(tmp_path, experiment(ArmSpec("control", control.url))) as stage:
                _, lane = await stage.worker()
                await stage.serving.renew(replace(stage.serving._spec, held_bytes=100))
                lane.write(copy_frame("a", 2) + served_frame("a"))
                one = stage.serving.comparisons["fp8-kv"]
                await until(lambda: one.books()["admitted"] == 1)
                lane.close()
            assert stage.books["dropped"] == {"overload": 1} and not control.requests

    play(run)
