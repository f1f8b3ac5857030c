"""Routing credits an engine with a cache it has lost; or trouble with the index fails every request.

Which engine holds which beginning is believed from what was routed there, and known from what engines publish
(`test_h29_kv_events_gap_published.py`).  Here nothing is published: nothing that goes wrong with what is
believed fails a request, and an engine that was gone is forgotten.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from random import random

import pytest

from gateway.spec import EngineSpec, FleetSpec, HealthSpec
from tests.failures.support import Told, at_once, told
from tests.support import (
    FINISH,
    LAST,
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
from tests.support_shared import run

Gone = Callable[[Gateway, Engine, Told], Awaitable[None]]


def question(beginning: str, n: int = 0, size: int = 8_000) -> bytes:
    messages = [
        {"role": "system", "content": beginning.ljust(size, ".")},
        {"role": "user", "content": f"Question {n}?"},
    ]
    return post(json.dumps({"model": "m", "stream": True, "messages": messages}).encode())


async def probed_often(engines: list[Engine]) -> list[FleetSpec]:
    """A fleet of these whose engines are found gone, and back, in a tenth of the usual time."""
    for engine in engines:
        await engine.start()
    specs = tuple(EngineSpec(n, engine.url, kind="vllm") for n, engine in enumerate(engines))
    health = HealthSpec(probe_every_s=0.2)
    return [FleetSpec(None, (), True, specs, "prefix_cost", health=health)]


async def holder(gateway: Gateway, engines: list[Engine], beginning: str) -> int:
    """Which engine is asked a question with this beginning."""
    before = [len(engine.asked) for engine in engines]
    assert (await ask(gateway.port, question(beginning))).status == 200
    (asked,) = [n for n, engine in enumerate(engines) if len(engine.asked) > before[n]]
    return asked


async def found_gone_by_probes(gateway: Gateway, gone: Engine, status: Told) -> None:
    await gone.stop()
    await until(lambda: [one["up"] for one in status.engines].count(False) == 1, 20)
    await gone.start()


async def found_gone_by_requests(gateway: Gateway, gone: Engine, status: Told) -> None:
    """And back before a probe has missed it."""
    await gone.stop()
    for n in range(16):
        assert (await ask(gateway.port, question(f"other {n}"))).status == 200
    await gone.start()


@pytest.mark.parametrize(
    "found",
    [
        found_gone_by_probes,
        found_gone_by_requests,
    ],
)
def test_h29_kv_events_gap_an_engine_that_was_gone_is_credited_with_nothing(found: Gone) -> None:
    """What it held is computed anew wherever there is least to do, which here is elsewhere."""

    async def test() -> None:
        # Documents: nothing is learned of the engines' speed, for these compute nothing.
        engines = [Engine(answers(json_answer(b"{}"))) for _ in range(2)]
        fleets = await probed_often(engines) if found is found_gone_by_probes else None
        async with (
            running(*engines, fleets=fleets, policy="prefix_cost") as gateway,
            told(gateway.run_dir) as status,
        ):
            names = [f"beginning {n}" for n in range(20)]
            held = {name: await holder(gateway, engines, name) for name in names}
            again = {name: await holder(gateway, engines, name) for name in names}
            assert again == held  # known to be there
            number = held[names[0]]
            of_it = [name for name in names if held[name] == number]
            await found(gateway, engines[number], status)
            seen = len(engines[number].asked)
            async with asyncio.timeout(60):
                while len(engines[number].asked) == seen:  # until it is used again
                    assert (await ask(gateway.port, question(f"new {random()}"))).status == 200
                    await asyncio.sleep(0.02)
            # One request in flight weighs less than what these beginnings would save, if they were held.
            gateway.loads.row(0).add(number, 1, 0)
            for name in of_it:
                assert await holder(gateway, engines, name) != number, name
            gateway.loads.row(0).add(number, -1, 0)

    run(test())


def test_h29_kv_events_gap_losing_what_was_known_fails_no_request() -> None:
    """Engines go and come back, all of them, under load: with the first good probe all is served again."""

    async def test() -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        async with running(*engines, fleets=await probed_often(engines)) as gateway:
            for turn, engine in enumerate(engines[:2]):
                asked = [question(f"beginning {n % 7}", turn) for n in range(30)]
                assert {got.status for got in await at_once(ask(gateway.port, one) for one in asked)} == {200}
                await engine.stop()
                got = await at_once(ask(gateway.port, one) for one in asked)
                assert {one.status for one in got} == {200}, turn  # the others take over what it held
                await engine.start()
                seen = len(engine.asked)
                async with asyncio.timeout(60):
                    while len(engine.asked) == seen:  # until it is used again
                        new = question(f"new {random()}")
                        assert (await ask(gateway.port, new)).status == 200
                        await asyncio.sleep(0.02)
            assert all(gateway.loads.totals(n) == (0, 0, 0, 0) for n in range(3))

    run(test())


@pytest.mark.parametrize("policy", ["prefix_cost", "least_load", "round_robin"])
def test_h29_kv_events_gap_beginnings_beyond_count_degrade_to_load_and_never_to_a_500(policy: str) -> None:
    """Long, empty, equal and endlessly many beginnings: whatever the index makes of them, all are served."""

    async def test() -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        async with running(*engines, policy=policy) as gateway:
            requests = [question(f"{n}", n, size=1 + (n * 7919) % 40_000) for n in range(300)]
            requests += [post(b'{"model":"m","messages":[]}'), post(b'{"model":"m","prompt":""}')] * 20
            requests += [post(b"[" + b"1," * 100 + b"1]"), post(b'{"model":"m","prompt":[1,2,3]}')] * 20
            got = await at_once(ask(gateway.port, one) for one in requests)
            assert {one.status for one in got} <= {200, 400}
            assert [one.status for one in got].count(400) in (0, 20)  # a list is the client's mistake
            assert all(gateway.loads.totals(n) == (0, 0, 0, 0) for n in range(3))

    run(test())


def test_h29_kv_events_gap_a_fresh_gateway_knows_nothing_and_serves_by_load() -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN))
            await go_on.wait()
            await peer.send(event(FINISH), LAST)

        engines = [Engine(script) for _ in range(4)]
        async with running(*engines, policy="prefix_cost") as gateway:
            asking = asyncio.get_running_loop().create_task(
                at_once(ask(gateway.port, question(f"beginning {n}")) for n in range(40))
            )
            await until(lambda: sum(len(engine.asked) for engine in engines) == 40)
            shares = [len(engine.asked) for engine in engines]
            go_on.set()
            assert {got.status for got in await asking} == {200}
        assert max(shares) - min(shares) <= 2, shares

    run(test())
