"""Places in the queue, retries, changed limits and usage, as clients and engines see them."""

import asyncio
import json
from typing import Any

import pytest

from gateway.spec import EngineSpec, FleetSpec, KeySpec, LimitsSpec, RoomSpec
from tests.admission.staging import key, spec
from tests.support import (
    FINISH,
    LAST,
    SSE_HEAD,
    TOKEN,
    Answered,
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

KEYS = (key("ann", 0), key("rob", 1))
ANYBODY = KeySpec("anonymous", 2)
ROOM = (RoomSpec(None),)
GOOD = "Authorization: Bearer sl-ann"
OK = streams(TOKEN, FINISH)


def get(path: str, *extra: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: g", "Connection: close", *extra, "", ""]).encode()


def header(peer: Peer, name: str) -> list[str]:
    return [value for given, value in peer.headers if given.lower() == name]


def refused(got: Answered) -> str:
    """Which limit a refusal names; it is OpenAI's error object."""
    error = json.loads(got.text)["error"]
    assert error["message"] and error["type"] and error["param"] is None
    return str(error["code"])


HANDSHAKE = (
    b"GET /v1/realtime?model=m HTTP/1.1\r\nHost: g\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Turns:
    """Engines whose answers end when the test says so."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, asyncio.Event]] = []

    async def script(self, peer: Peer) -> None:
        self.ends.append((peer.body.decode("latin-1"), asyncio.Event()))
        await peer.send(SSE_HEAD, event(TOKEN))
        await self.ends[-1][1].wait()
        await peer.send(event(FINISH), LAST)

    def end(self, at: int) -> None:
        self.ends[at][1].set()


def chat(who: str, **more: Any) -> bytes:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": who}], **more}
    return json.dumps(body).encode()


def asking(gateway: Gateway, request: bytes) -> "asyncio.Task[Answered]":
    return asyncio.get_running_loop().create_task(ask(gateway.port, request))


def waiting(gateway: Gateway) -> int:
    return sum(gateway.held.total(gateway.held.waiting + fleet) for fleet in range(4))


def is_empty(gateway: Gateway) -> bool:
    return not any(gateway.held.leases(0))


# Keys


# Turns


def test_an_engine_is_chosen_when_there_is_room_and_not_before() -> None:
    """Two engines, one request each; the third goes to whichever is free first."""

    async def test() -> None:
        turns = Turns()
        engines = [Engine(turns.script), Engine(turns.script)]
        for engine in engines:
            await engine.start()
        specs = tuple(EngineSpec(i, e.url, kind="vllm", concurrency=1) for i, e in enumerate(engines))
        fleets = (FleetSpec(None, (), True, specs, "least_load"),)
        async with running(*engines, fleets=fleets, admission=spec((ANYBODY,), ROOM)) as gateway:
            first = [asking(gateway, post(chat(f"{n}"))) for n in range(2)]
            await until(lambda: len(turns.ends) == 2)
            assert [len(engine.asked) for engine in engines] == [1, 1]
            third = asking(gateway, post(chat("third")))
            await until(lambda: waiting(gateway) == 1)
            frees = next(
                n for n, (body, _) in enumerate(turns.ends) if body == engines[1].asked[0].body.decode()
            )
            turns.end(frees)
            await until(lambda: len(turns.ends) == 3)
            assert [len(engine.asked) for engine in engines] == [1, 2]
            turns.end(1 - frees)
            turns.end(2)
            assert [(await one).status for one in (*first, third)] == [200] * 3
            assert is_empty(gateway)

    run(test())


def test_a_retry_leaves_its_place_and_takes_one_where_there_is_room() -> None:
    """The first engine is busy for all; the second takes one at a time: never more, and the third one too."""

    async def test() -> None:
        most = running_now = 0

        async def counts(peer: Peer) -> None:
            nonlocal most, running_now
            running_now += 1
            most = max(most, running_now)
            await asyncio.sleep(0.02)
            running_now -= 1
            await OK(peer)

        busy, good, third = Engine(answers(json_answer(b"{}", "503 Busy"))), Engine(counts), Engine(OK)
        for engine in (busy, good, third):
            await engine.start()
        specs = tuple(
            EngineSpec(i, e.url, kind="vllm", concurrency=most)
            for i, (e, most) in enumerate([(busy, 8), (good, 1), (third, None)])
        )
        fleets = (FleetSpec(None, (), True, specs, "least_load"),)
        limits = LimitsSpec(drain_s=5.0, retry_share=1.0, retry_per_s=1000.0, retries=16)
        async with running(
            busy, good, third, fleets=fleets, limits=limits, admission=spec((ANYBODY,), ROOM)
        ) as g:
            got = await asyncio.gather(*(ask(g.port, post(chat(f"{n}"))) for n in range(40)))
            assert [one.status for one in got] == [200] * 40
            assert most == 1 and busy.asked and third.asked
            assert is_empty(g)

    run(test())


def test_an_engines_refusal_is_passed_on_where_the_other_engines_are_full() -> None:
    async def test() -> None:
        turns = Turns()
        busy, full = Engine(answers(json_answer(b"{}", "503 Busy", "Retry-After: 7"))), Engine(turns.script)
        await busy.start()
        await full.start()
        specs = tuple(EngineSpec(i, e.url, kind="vllm", concurrency=1) for i, e in enumerate((busy, full)))
        fleets = (FleetSpec(None, (), True, specs, "least_load"),)
        async with running(busy, full, fleets=fleets, admission=spec((ANYBODY,), ROOM)) as gateway:
            first = asking(gateway, post())
            await until(lambda: len(turns.ends) == 1)
            got = await ask(gateway.port, post())
            assert got.status == 503 and got.body == b"{}" and got.header("retry-after") == ["7"]
            turns.end(0)
            assert (await first).status == 200
            assert is_empty(gateway)

    run(test())


def test_a_request_may_come_back_to_its_own_place_when_its_engine_says_when() -> None:
    """The only engine, with one place, which this very request holds while it waits for the engine."""

    async def test() -> None:
        async def busy_first(peer: Peer) -> None:
            await (
                OK if len(engine.asked) > 1 else answers(json_answer(b"{}", "503 Busy", "Retry-After: 1"))
            )(peer)

        engine = Engine(busy_first)
        await engine.start()
        told = EngineSpec(0, engine.url, kind="vllm", concurrency=1)
        fleets = (FleetSpec(None, (), True, (told,), "least_load"),)
        async with running(engine, fleets=fleets, admission=spec((ANYBODY,), ROOM)) as gateway:
            assert (await ask(gateway.port, post())).status == 200
            assert len(engine.asked) == 2 and is_empty(gateway)

    run(test())


def test_a_request_that_waits_when_the_gateway_stops_is_told_so() -> None:
    async def test() -> None:
        turns = Turns()
        room = (RoomSpec(None, concurrency=1),)
        limits = LimitsSpec(drain_s=0.3)
        async with running(Engine(turns.script), limits=limits, admission=spec((ANYBODY,), room)) as gateway:
            runs = asking(gateway, post(chat("runs")))
            await until(lambda: len(turns.ends) == 1)
            waits = asking(gateway, post(chat("waits")))
            await until(lambda: waiting(gateway) == 1)
            gateway.stop.set()
            got = await waits
            assert got.status == 503 and refused(got) == "stopping" and int(got.header("retry-after")[0]) >= 1
            assert not (await runs).is_whole
            assert len(turns.ends) == 1  # no turn came of the other's end

    run(test())


def test_keys_and_limits_change_under_what_runs_and_waits_and_nothing_is_lost() -> None:
    async def test() -> None:
        turns = Turns()
        room = RoomSpec(None, concurrency=1)
        mine = post(chat("mine"), "/v1/chat/completions", GOOD)
        async with running(Engine(turns.script), admission=spec(KEYS, (room,))) as gateway:
            first = asking(gateway, mine)
            await until(lambda: len(turns.ends) == 1)
            others = [asking(gateway, mine) for _ in range(3)]
            await until(lambda: waiting(gateway) == 3)
            # the key is gone and another is there: who was let in stays
            assert await gateway.renew(admission=spec((key("c", 3),), (room,))) is None
            assert (await ask(gateway.port, mine)).status == 401
            assert len(turns.ends) == 1 and waiting(gateway) == 3
            # more room: two of those that wait run at once
            assert await gateway.renew(admission=spec(KEYS, (RoomSpec(None, concurrency=3),))) is None
            await until(lambda: len(turns.ends) == 3)
            assert waiting(gateway) == 1
            # no limits at all: the last one runs too
            assert await gateway.renew(admission=None) is None
            await until(lambda: len(turns.ends) == 4)
            for at in range(4):
                turns.end(at)
            got = [await one for one in (first, *others)]
            assert all(one.status == 200 and one.is_whole for one in got)
            assert is_empty(gateway)

    run(test())


# Want of room


# What it cost


USAGE = '{"choices":[],"usage":{"prompt_tokens":60,"completion_tokens":2}}'


@pytest.mark.parametrize("is_stream", [True, False])
def test_what_the_engine_says_that_it_read_is_what_counts_in_the_end(is_stream: bool) -> None:
    """A burst of 100: 60 by the engine's word, 10 by estimate; so the next may ask 40, and not 50."""

    async def test() -> None:
        script = streams(TOKEN, FINISH, USAGE) if is_stream else answers(json_answer(USAGE.encode()))
        everyone = {"prompt_tokens_per_s": 0.001, "prompt_tokens_burst": 100}
        admission = spec((ANYBODY,), ROOM, everyone, bytes_per_token=1.0)
        async with running(Engine(script), admission=admission) as gateway:
            assert (await ask(gateway.port, post(chat("12345")))).status == 200
            got = await ask(gateway.port, post(chat("x" * 50)))
            assert got.status == 503 and refused(got) == "all_prompt_tokens"
            assert (await ask(gateway.port, post(chat("x" * 20)))).status == 200

    run(test())


# WebSockets
