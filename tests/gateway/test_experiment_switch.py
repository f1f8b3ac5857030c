"""The kill switch: by command, over HTTP, by reload; it stops all copies at once, and says so everywhere."""

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

from analysis import switches
from mirror import brakes, switch
from tests.gateway.programs import shadowlane
from tests.gateway.test_reload_experiments import experiment, talk
from tests.gateway.whole import ROOT, Whole, begin, serving, with_engines
from tests.support import FINISH, SSE_HEAD, TOKEN, Engine, Peer, ask, event, post, streams


def settings(engines: list[Engine], **more: Any) -> dict[str, Any]:
    fleets = [{"model": "m", "engines": [{"url": engines[0].url, "kind": "vllm"}]}]
    trial = experiment("trial", "m", engines[1], engines[2], **more)
    return {"fleets": fleets, "experiments": [trial], "workers": 2}


async def copied(whole: Whole, arm: Engine, numbers: "count[int]") -> None:
    """Ask until a copy comes to the arm."""
    before = len(arm.asked)
    async with asyncio.timeout(40):
        while len(arm.asked) == before:
            assert (await ask(whole.port, post(talk(next(numbers))))).is_whole
            await asyncio.sleep(0.02)


async def not_copied(whole: Whole, arm: Engine, numbers: "count[int]", requests: int = 30) -> None:
    """Ask: production answers all, and no copy comes."""
    before = len(arm.asked)
    for _ in range(requests):
        answer = await ask(whole.port, post(talk(next(numbers))))
        assert answer.status == 200 and answer.is_whole
    assert len(arm.asked) == before


async def command(whole: Whole, *argv: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *shadowlane("experiment", *argv, "--admin", whole.admin),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def shown(whole: Whole) -> dict[str, Any]:
    async with whole.http.get(whole.admin + "/api/experiments") as answer:
        found: dict[str, Any] = json.loads(await answer.text())["experiments"][0]
        return found


async def asked(whole: Whole, path: str) -> tuple[int, dict[str, Any]]:
    async with whole.http.post(whole.admin + path) as answer:
        return answer.status, json.loads(await answer.text())


def test_the_reasons_shown_are_those_there_are() -> None:
    assert switches.BRAKES == brakes.BRAKES
    assert (switches.BY_HAND, switches.CONFIG) == (switch.BY_HAND, switch.CONFIG)


def test_a_pause_by_command_stops_all_copies_in_all_workers_and_is_said_everywhere(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        await begin(stack, *engines)
        numbers = count()
        async with serving(tmp_path, settings(engines)) as whole:
            await copied(whole, engines[1], numbers)
            assert await command(whole, "pause", "nobody") == (
                1,
                "shadowlane experiment pause: no such experiment: nobody; there are: trial\n",
            )
            assert (await command(whole, "pause"))[0] == 1
            assert await command(whole, "pause", "trial", "--why", "GPU needed") == (0, "trial: paused\n")
            await not_copied(whole, engines[1], numbers)

            pause = (await shown(whole))["paused"]
            assert (pause["reason"], pause["detail"], pause["resumes_in_s"]) == (
                "by_hand",
                "GPU needed",
                None,
            )
            said = (await command(whole, "list"))[1]
            assert said.startswith("trial  calibration  epoch 1  paused until it is resumed (by_hand)")
            labels = 'experiment="trial",reason="by_hand"'
            assert await whole.metric(f"shadowlane_experiment_paused{{{labels}}}") == 1.0
            async with asyncio.timeout(20):  # exported once a second
                while await paused_copies(whole) < 30:
                    await asyncio.sleep(0.1)
            assert await paused_copies(whole) == 30

            assert await command(whole, "resume", "--all") == (0, "trial: copied\n")
            assert (await shown(whole))["paused"] is None
            await copied(whole, engines[1], numbers)

    with_engines(test)


async def paused_copies(whole: Whole) -> float:
    try:
        name = 'shadowlane_lane_dropped_total{experiment="trial",reason="paused"}'
        return await whole.metric(name)
    except (StopIteration, RuntimeError):
        return 0.0


def test_a_pause_rids_the_arms_of_what_was_under_way_and_the_books_close(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        began, left = asyncio.Event(), asyncio.Event()

        async def endless(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN))
            if peer.line.startswith("POST"):  # else somebody asks what engine this is
                began.set()
                if await peer.left():
                    left.set()

        engines = [Engine(streams(TOKEN, FINISH)), Engine(endless), Engine(endless)]
        await begin(stack, *engines)
        async with serving(tmp_path, settings(engines)) as whole:
            numbers = count()
            await copied(whole, engines[1], numbers)
            await asyncio.wait_for(began.wait(), 20)
            assert not left.is_set()
            assert (await asked(whole, "/api/experiments/trial/pause"))[0] == 200
            await asyncio.wait_for(left.wait(), 20)
            async with asyncio.timeout(30):
                while True:
                    async with whole.http.get(whole.admin + "/api/experiments/trial") as answer:
                        books = json.loads(await answer.text()).get("books", {})
                    dropped = books.get("dropped", {})
                    if dropped.get("paused") and books["admitted"] == books["paired"] + sum(dropped.values()):
                        return
                    await asyncio.sleep(0.1)

    with_engines(test)


def test_a_pause_outlives_the_processes_that_obey_it_and_the_gateway(tmp_path: Path) -> None:
    """Killed workers, a killed shadow process, a killed analysis, a restart of all: nothing is copied."""

    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        await begin(stack, *engines)
        numbers = count()
        async with serving(tmp_path, settings(engines)) as whole:
            await copied(whole, engines[1], numbers)
            assert (await asked(whole, "/api/pause"))[0] == 200
            for victim in ("_shadow", "_worker", "_analysis"):
                lost = whole.children()[victim]
                os.kill(lost, signal.SIGKILL)
                async with asyncio.timeout(30):
                    while whole.children().get(victim) in (None, lost):
                        await asyncio.sleep(0.05)
            await not_copied(whole, engines[1], numbers, 60)
        async with serving(tmp_path, settings(engines)) as whole:
            await not_copied(whole, engines[1], numbers, 60)
            assert (await shown(whole))["paused"]["reason"] == "by_hand"
            assert (await asked(whole, "/api/resume"))[0] == 200
            await copied(whole, engines[1], numbers)

    with_engines(test)


def test_the_configuration_pauses_and_lets_go_at_a_reload_and_nothing_begins_anew(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        await begin(stack, *engines)
        numbers = count()
        async with serving(tmp_path, settings(engines, paused=True)) as whole:
            await not_copied(whole, engines[1], numbers)
            status, said = await asked(whole, "/api/experiments/trial/resume")
            assert status == 409 and said["error"]["code"] == "paused_by_config"
            assert "paused: true" in said["error"]["message"]

            whole.write(experiments=settings(engines)["experiments"])
            assert (await whole.reload())[0] == 200
            await copied(whole, engines[1], numbers)
            whole.write(experiments=settings(engines, paused=True)["experiments"])
            assert (await whole.reload())[0] == 200
            await not_copied(whole, engines[1], numbers)
            found = await shown(whole)
            assert (found["paused"]["reason"], found["epoch"]) == ("config", 1)

    with_engines(test)


def test_a_pause_acts_while_the_shadow_process_is_stopped(tmp_path: Path) -> None:
    """The workers obey at once; who asked is told that the shadow process has not said so."""

    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        await begin(stack, *engines)
        numbers = count()
        async with serving(tmp_path, settings(engines)) as whole:
            await copied(whole, engines[1], numbers)
            stopped = whole.children()["_shadow"]
            os.kill(stopped, signal.SIGSTOP)
            try:
                status, said = await asked(whole, "/api/pause")
                assert (status, said["error"]["code"]) == (503, "not_obeyed")
                assert said["error"]["message"].startswith("shadow did not say")
                async with asyncio.timeout(20):
                    while True:
                        workers = [
                            one
                            for one in (await whole.status())["processes"]
                            if one["process"].startswith("worker")
                        ]
                        if all(one["paused"] == ["trial"] for one in workers):
                            break
                        await asyncio.sleep(0.05)
            finally:
                os.kill(stopped, signal.SIGCONT)
            await not_copied(whole, engines[1], numbers)

    with_engines(test)
