"""H30 health-flap: who is there and answers badly is left out, tried with one request, and taken back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.spec import EngineSpec, FleetSpec, HealthSpec, LimitsSpec
from tests.failures.support import Told, told
from tests.support import (
    FINISH,
    SSE_HEAD,
    TOKEN,
    Engine,
    Gateway,
    Peer,
    answers,
    ask,
    event,
    json_answer,
    post,
    running,
    streams,
    until,
)
from tests.support_shared import hangs, run

GOOD = streams(TOKEN, FINISH)
BAD = {
    "500": answers(json_answer(b'{"error":{"message":"broken"}}', "500 Internal Server Error")),
    "502": answers(json_answer(b"{}", "502 Bad Gateway")),
    "503": answers(json_answer(b"{}", "503 Service Unavailable")),
    "504": answers(json_answer(b"{}", "504 Gateway Timeout")),
    "503 in a 200": streams('{"error":{"message":"busy","code":503}}'),
    "500 in a 200": streams('{"error":{"message":"broken","code":500}}'),
}
QUICK = HealthSpec(ejection_s=0.2, ejection_max_s=0.4, error_answers=3, timeouts=1)


@asynccontextmanager
async def two(
    bad: Engine, good: Engine, limits: LimitsSpec | None = None, health: HealthSpec = QUICK
) -> AsyncIterator[tuple[Gateway, Told]]:
    for engine in (bad, good):
        await engine.start()
    specs = tuple(EngineSpec(number, engine.url, kind="vllm") for number, engine in enumerate((bad, good)))
    fleets = [FleetSpec(None, (), True, specs, "round_robin", {}, health)]
    async with running(bad, good, fleets=fleets, limits=limits) as gateway, told(gateway.run_dir) as heard:
        yield gateway, heard


def state(heard: Told, engine: int = 0) -> str:
    return heard.engines[engine]["state"] if heard.engines else ""


@pytest.mark.parametrize("how", BAD)
def test_h30_an_engine_that_only_fails_costs_a_few_requests_then_a_trial_each_time(how: str) -> None:
    async def test() -> None:
        bad, good = Engine(BAD[how]), Engine(GOOD)
        limits = LimitsSpec(drain_s=5, retry_per_s=1000.0)
        async with two(bad, good, limits) as (gateway, heard):
            failed = 0
            for _ in range(100):
                got = await ask(gateway.port, post())
                failed += got.status != 200 or b"error" in got.text
            assert failed <= QUICK.error_answers + 2
            assert QUICK.error_answers <= len(bad.asked) <= 20 and len(good.asked) >= 90
            await until(lambda: state(heard) in ("ejected", "trial"))
            bad.script = GOOD

            async def good_again() -> None:
                while state(heard) != "good":
                    await ask(gateway.port, post())
                    await asyncio.sleep(0.01)

            await asyncio.wait_for(good_again(), 20)
            before = len(bad.asked)
            for _ in range(10):
                assert (await ask(gateway.port, post())).status == 200
            assert len(bad.asked) - before == 5

    run(test())


def test_h30_a_trial_is_one_request_however_many_come() -> None:
    async def test() -> None:
        bad, good = Engine(BAD["500"]), Engine(GOOD)
        health = HealthSpec(ejection_s=3, ejection_max_s=3, error_answers=3)
        async with two(bad, good, health=health) as (gateway, heard):
            while len(bad.asked) < 3:
                await ask(gateway.port, post())
            before = len(bad.asked)
            bad.script = hangs  # the trial's request stays there
            await until(lambda: state(heard) == "trial")
            trying = [asyncio.get_running_loop().create_task(ask(gateway.port, post())) for _ in range(40)]
            await until(lambda: sum(one.done() for one in trying) >= 39)
            assert len(bad.asked) - before == 1
            for one in trying:
                one.cancel()
            await asyncio.gather(*trying, return_exceptions=True)

    run(test())


def test_h30_an_engine_that_takes_requests_and_says_nothing_is_left_out() -> None:
    async def test() -> None:
        bad, good = Engine(hangs), Engine(GOOD)
        async with two(bad, good, LimitsSpec(first_token_timeout_s=0.5, drain_s=5)) as (gateway, heard):
            for _ in range(2):
                assert (await ask(gateway.port, post())).status == 200  # the other is asked after the silence
            await until(lambda: state(heard) in ("ejected", "trial"))
            assert len(bad.asked) == 1

    run(test())


def test_h30_a_queue_behind_running_answers_is_no_silence() -> None:
    """Requests time out unheard at an engine that streams to others: it is busy, and not left out."""

    async def test() -> None:
        async def script(peer: Peer) -> None:
            if len(bad.asked) > 1:
                await peer.left()
                return
            await peer.send(SSE_HEAD)
            while not done.is_set():
                await peer.send(event(TOKEN))
                await asyncio.sleep(0.05)
            await peer.send(event(FINISH), event("[DONE]"), b"0\r\n\r\n")

        done = asyncio.Event()
        bad, good = Engine(script), Engine(GOOD)
        async with two(bad, good, LimitsSpec(first_token_timeout_s=0.5, drain_s=5)) as (gateway, heard):
            first = asyncio.get_running_loop().create_task(ask(gateway.port, post(), 60))
            await until(lambda: len(bad.asked) + len(good.asked) == 1)
            if good.asked:
                await first
                first = asyncio.get_running_loop().create_task(ask(gateway.port, post(), 60))
                await until(lambda: len(bad.asked) == 1)
            while len(bad.asked) < 4:
                await ask(gateway.port, post())
            frames = len(heard.frames)
            await until(lambda: len(heard.frames) > frames + 1)
            assert state(heard) == "good"
            done.set()
            assert (await first).is_whole

    run(test())


def test_h30_a_fleet_all_of_whose_engines_fail_is_asked_all_the_same() -> None:
    async def test() -> None:
        one, other = Engine(BAD["500"]), Engine(BAD["500"])
        async with two(one, other) as (gateway, _):
            for _ in range(40):
                assert (await ask(gateway.port, post())).status == 500
            assert len(one.asked) + len(other.asked) == 40
            one.script = other.script = GOOD
            assert (await ask(gateway.port, post())).status == 200

    run(test())


def test_h30_what_the_model_answers_badly_everywhere_ejects_nobody() -> None:
    async def test() -> None:
        one, other = Engine(BAD["500"]), Engine(BAD["500"])
        async with two(one, other) as (gateway, heard):
            for _ in range(40):
                await ask(gateway.port, post())
            frames = len(heard.frames)
            await until(lambda: len(heard.frames) > frames + 1)
            assert "good" in (state(heard), state(heard, 1))

    run(test())
