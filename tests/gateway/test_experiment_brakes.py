"""Experiments pause themselves, each for its reason, say so everywhere, and go on once the cause is gone."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

from tests.gateway.test_experiment_switch import copied, shown
from tests.gateway.test_reload_experiments import experiment, talk
from tests.gateway.whole import Whole, begin, serving, with_engines
from tests.support import FINISH, TOKEN, Engine, Peer, ask, json_answer, post, streams

# So that every one is quick to trip and to let go; a brake is off but where a test turns it on.
OFF = {
    "window_s": 3,
    "least": 5,
    "error_share": 1,
    "slowdown": None,
    "lane_share": 1,
    "memory_free": 0,
    "arm_error_share": 1,
    "hold_s": 1,
}


def settings(engines: list[Engine], **brakes: Any) -> dict[str, Any]:
    fleets = [{"model": "m", "engines": [{"url": engines[0].url, "kind": "vllm"}]}]
    trial = experiment("trial", "m", engines[1], engines[2], brakes={**OFF, **brakes})
    return {"fleets": fleets, "experiments": [trial], "health": {"error_answers": 1_000_000}}


class Fickle:
    """A script that fails while it is told to."""

    def __init__(self, fails: Callable[[Peer], Awaitable[None]]) -> None:
        self.failing = False
        self._fails = fails
        self._works = streams(TOKEN, FINISH)

    async def __call__(self, peer: Peer) -> None:
        await (self._fails if self.failing else self._works)(peer)


async def refuses(peer: Peer) -> None:
    await peer.send(json_answer(b'{"error":{"message":"no"}}', "500 Internal Server Error"))


async def dawdles(peer: Peer) -> None:
    await asyncio.sleep(0.3)
    await streams(TOKEN, FINISH)(peer)


async def asked_until(whole: Whole, numbers: "count[int]", paused: bool, body_bytes: int = 0) -> Any:
    """Ask, again and again, until the experiment is paused or goes on: why it is, or None."""
    padding = b"x" * body_bytes
    async with asyncio.timeout(60):
        while True:
            body = talk(next(numbers)).replace(b"talk", b"talk " + padding)
            await asyncio.gather(*(ask(whole.port, post(body)) for _ in range(2)))
            pause = (await shown(whole))["paused"]
            if (pause is not None) is paused:
                return pause


async def said_everywhere(whole: Whole, pause: dict[str, Any], reason: str) -> None:
    assert pause["reason"] == reason and pause["resumes_in_s"] is not None
    lines = [json.loads(line) for line in whole.log.splitlines() if "pauses itself" in line]
    assert lines and all(line["reason"] == reason and line["detail"] and line["remedy"] for line in lines)
    labels = f'experiment="trial",reason="{reason}"'
    assert await whole.metric(f"shadowlane_experiment_trips_total{{{labels}}}") >= 1


def test_it_pauses_while_production_fails_and_goes_on_after_it(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        production = Fickle(refuses)
        engines = [Engine(production), *(Engine(streams(TOKEN, FINISH)) for _ in range(2))]
        await begin(stack, *engines)
        numbers = count()
        async with serving(tmp_path, settings(engines, error_share=0.2)) as whole:
            await copied(whole, engines[1], numbers)
            production.failing = True
            pause = await asked_until(whole, numbers, paused=True)
            await said_everywhere(whole, pause, "production_errors")
            assert "failed" in pause["detail"]
            production.failing = False
            assert await asked_until(whole, numbers, paused=False) is None
            await copied(whole, engines[1], numbers)
            assert "goes on" in whole.log

    with_engines(test)


def test_it_pauses_while_productions_first_tokens_are_late(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        production = Fickle(dawdles)
        engines = [Engine(production), *(Engine(streams(TOKEN, FINISH)) for _ in range(2))]
        await begin(stack, *engines)
        numbers = count()
        async with serving(tmp_path, settings(engines, ttft_ms=250)) as whole:
            await copied(whole, engines[1], numbers)
            production.failing = True
            pause = await asked_until(whole, numbers, paused=True)
            await said_everywhere(whole, pause, "production_latency")

    with_engines(test)


def test_it_pauses_when_an_arm_mostly_fails_and_tries_it_again(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        candidate = Fickle(refuses)
        engines = [*(Engine(streams(TOKEN, FINISH)) for _ in range(2)), Engine(candidate)]
        await begin(stack, *engines)
        numbers = count()
        async with serving(tmp_path, settings(engines, arm_error_share=0.5)) as whole:
            await copied(whole, engines[1], numbers)
            candidate.failing = True
            pause = await asked_until(whole, numbers, paused=True)
            await said_everywhere(whole, pause, "arm_errors")
            assert "arm c " in pause["detail"]
            candidate.failing = False
            await asked_until(whole, numbers, paused=False)
            await copied(whole, engines[2], numbers)

    with_engines(test)


def test_it_pauses_when_a_process_holds_too_much_memory_and_resume_lets_it_go_for_now(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        await begin(stack, *engines)
        async with serving(tmp_path, settings(engines, memory_bytes=1 << 20)) as whole:
            pause = await asked_until(whole, count(), paused=True)
            await said_everywhere(whole, pause, "memory")
            assert "MiB" in pause["detail"]
            async with whole.http.post(whole.admin + "/api/resume") as answer:
                assert answer.status in (200, 409)  # it may have been seen again meanwhile

    with_engines(test)


def test_it_pauses_when_copies_pile_up_before_a_shadow_process_that_does_not_read(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        await begin(stack, *engines)
        numbers = count()
        told = {**settings(engines, lane_share=0.5), "mirror": {"lane_bytes": 300_000, "copy_bytes": 200_000}}
        async with serving(tmp_path, told) as whole:
            await copied(whole, engines[1], numbers)
            stopped = whole.children()["_shadow"]
            os.kill(stopped, signal.SIGSTOP)
            try:
                pause = await asked_until(whole, numbers, paused=True, body_bytes=100_000)
                await said_everywhere(whole, pause, "lane_pressure")
                await gone_on(whole)  # with nothing copied and the lane given up, nothing presses any more
            finally:
                os.kill(stopped, signal.SIGCONT)
            await copied(whole, engines[1], numbers)

    with_engines(test)


async def gone_on(whole: Whole) -> None:
    async with asyncio.timeout(60):
        while (await shown(whole))["paused"] is not None:
            await asyncio.sleep(0.1)
