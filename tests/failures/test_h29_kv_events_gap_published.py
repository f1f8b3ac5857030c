"""Events have gaps, begin again, come twice or broken: nothing lost is credited, and no request fails.

The events are real messages over real sockets; `tests/gateway/kv` has the rest of their laws.
"""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from routing.events.board import State
from tests.gateway.kv.staging import FAST, SIZE, Scripted, emulated, engine, feeding, run, scripted, until
from tests.gateway.kv.test_whole import waited
from tests.gateway.whole import Whole, serving, with_engines
from tests.routing.events.memory import CLEARED, removed

GONE = "http://127.0.0.1:1"


async def begun(publisher: Scripted, fed: Any) -> None:
    """Heard from its first message on, with blocks 0 to 5."""
    await until(lambda: (heard := fed.heard()) is not None and heard.is_linked)
    while fed.state() is not State.EXACT:  # a subscription takes a moment to begin
        publisher.number = 0
        publisher.store(0)
        await asyncio.sleep(0.02)
    for word in range(1, 6):
        publisher.store(word)
    await until(lambda: fed.match([5] * SIZE) == {0: 1})


@pytest.mark.parametrize("replays", [True, False])
def test_h29_kv_events_gap_numbers_that_jump_credit_nothing_that_may_be_lost(
    tmp_path: Path, replays: bool
) -> None:
    """0 to 5, then 9; of what was missed a removal."""

    async def test(stack: AsyncExitStack) -> None:
        publisher = await scripted(stack)
        at: dict[str, Any] = {"replay": publisher.replay_at} if replays else {}
        async with feeding(tmp_path, engine(GONE, publish=publisher.publish_at, **at)) as fed:
            await begun(publisher, fed)
            publisher.publish(removed(1000), lost=True)
            publisher.store(6, lost=True)
            publisher.store(7, lost=True)
            publisher.store(8)
            if replays:
                await until(lambda: fed.match([8] * SIZE) == {0: 1})
                assert fed.match([0] * SIZE) == {0: 0} and fed.match([6] * SIZE) == {0: 1}
            else:
                await until(lambda: fed.state() is State.DEGRADED)
                assert [fed.match([word] * SIZE) for word in range(9)] == [{}] * 9

    run(test)


def test_h29_kv_events_gap_numbers_that_begin_again_forget_the_engine(tmp_path: Path) -> None:
    """It restarted on the same address, and never said that it forgot all."""

    async def test(stack: AsyncExitStack) -> None:
        publisher = await scripted(stack)
        async with feeding(tmp_path, engine(GONE, publish=publisher.publish_at)) as fed:
            await begun(publisher, fed)
            publisher.number = 0
            publisher.store(9)
            await until(lambda: fed.match([9] * SIZE) == {0: 1})
            assert [fed.match([word] * SIZE) for word in range(6)] == [{0: 0}] * 6

    run(test)


def test_h29_kv_events_gap_messages_told_twice_and_removals_of_what_is_unknown_change_nothing(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        publisher = await scripted(stack)
        async with feeding(
            tmp_path, engine(GONE, publish=publisher.publish_at, replay=publisher.replay_at)
        ) as fed:
            await begun(publisher, fed)
            publisher.publish(removed(77_777))
            publisher.publish({"type": "BlockOfTheFuture"}, removed(1005))
            await until(lambda: fed.match([5] * SIZE) == {0: 0})
            assert fed.match([4] * SIZE) == {0: 1} and fed.state() is State.EXACT
            heard = fed.heard()
            assert heard is not None
            assert heard.publisher.ignored == {"unknown_block": 1, "unknown_tag": 1}
            publisher.publish(CLEARED)
            await until(lambda: fed.match([4] * SIZE) == {0: 0})

    run(test)


async def served(whole: Whole, count: int) -> list[int]:
    """The statuses of so many requests at once."""
    bodies = [
        {
            "model": "emulated",
            "max_tokens": 2,
            "messages": [
                {"role": "system", "content": f"You are number {n % 5}. " * 200},
                {"role": "user", "content": f"Question {n}?"},
            ],
        }
        for n in range(count)
    ]

    async def one(body: dict[str, Any]) -> int:
        async with whole.http.post(
            whole.url + "/v1/chat/completions", json=body, timeout=aiohttp.ClientTimeout(60)
        ) as answer:
            await answer.read()
            return answer.status

    return await asyncio.gather(*map(one, bodies))


def test_h29_kv_events_gap_whatever_becomes_of_the_events_no_request_fails(tmp_path: Path) -> None:
    """Lost, broken and silent, the process that reads them stopped and killed, an engine's publisher gone."""

    async def test(stack: AsyncExitStack) -> None:
        engines = [await emulated(stack, replace(FAST, kv_events_loss=loss)) for loss in (0.0, 0.5)]
        junk = await scripted(stack)
        fleet = {"engines": [one.url for one in engines], "model": "emulated"}
        forged = {
            "engines": [engines[0].url.replace("127.0.0.1", "localhost")],
            "model": "forged",
            "kv_events": {"publish": junk.publish_at},
        }
        async with serving(tmp_path, {"fleets": [fleet, forged], "workers": 2}) as whole:
            await waited(whole, engines[0].url, state="EXACT")
            assert set(await served(whole, 40)) == {200}
            for n in range(200):
                junk.send(b"", (n * 7 % 13).to_bytes(8, "big"), b"\xc1" * n)
            assert set(await served(whole, 40)) == {200}
            os.kill(whole.children()["_events"], signal.SIGSTOP)
            assert set(await served(whole, 40)) == {200}
            os.kill(whole.children()["_events"], signal.SIGKILL)
            assert set(await served(whole, 40)) == {200}
            await waited(whole, engines[0].url, state="EXACT")
            assert set(await served(whole, 40)) == {200}

    with_engines(test)
