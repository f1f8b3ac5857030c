"""One hung engine ties up connections for minutes, and in the end blocks requests to healthy ones too."""

import asyncio
import json
import socket

import pytest

from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from tests.failures.support import PATH, ask_each, at_once, last_counts, number, told
from tests.support import (
    CHAT,
    FINISH,
    LAST,
    ROLE,
    SSE_HEAD,
    TOKEN,
    Answered,
    Engine,
    Peer,
    ask,
    chunk,
    event,
    post,
    running,
    streams,
    until,
)
from tests.support_shared import run

LIMITS = LimitsSpec(first_token_timeout_s=0.5, idle_timeout_s=0.5, connect_timeout_s=0.5)

# What an engine says before it hangs, without having said a token.
WITHOUT_A_TOKEN = {
    "nothing": b"",
    "half a head": SSE_HEAD[:30],
    "an interim answer": b"HTTP/1.1 102 Processing\r\n\r\n",
    "a head": SSE_HEAD,
    "a comment": SSE_HEAD + chunk(b": thinking\n\n"),
    "half an event": SSE_HEAD + chunk(b"data: {"),
    "a role": SSE_HEAD + event(ROLE),
    "half a chunk's size": SSE_HEAD + b"4",
}
WITH_A_TOKEN = {
    "a token": SSE_HEAD + event(TOKEN),
    "a token and a half": SSE_HEAD + event(TOKEN) + chunk(b'data: {"choi'),
    "a reason": SSE_HEAD + event(TOKEN) + event(FINISH),  # and never its end
    "[DONE]": SSE_HEAD + event(TOKEN) + event(FINISH) + event("[DONE]"),
    "a token and a comment": SSE_HEAD + event(TOKEN) + chunk(b": ping\n\n"),
}
BODIES = {
    "a body's head": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
    "half an error": b"HTTP/1.1 400 Bad\r\nContent-Length: 9\r\n\r\nhalf",
}
SAID = {**WITHOUT_A_TOKEN, **WITH_A_TOKEN, **BODIES}


def ended_visibly(said: str, got: Answered) -> bool:
    if got.status == 504:
        error = json.loads(got.body)["error"]
        return got.is_whole and error["type"] == "upstream_timeout"
    if said in BODIES:
        return not got.is_whole and b"upstream" not in got.body
    last = got.text[:-2].rpartition(b"\n\ndata: ")[2]
    return not got.is_whole and json.loads(last)["error"]["type"] == "upstream_cut" and b"timeout" in last


def test_h12_silent_engine_at_whatever_point_it_falls_silent_the_client_is_told() -> None:
    """A 504 while no head was passed on, an error event after it, a visible cut where there are no events."""

    async def script(peer: Peer) -> None:
        await peer.send(list(SAID.values())[number(peer)])
        await peer.left()

    async def test() -> None:
        async with running(Engine(script), limits=LIMITS) as gateway, told(gateway.run_dir) as heard:
            for said, got in zip(SAID, await ask_each(gateway.port, len(SAID)), strict=True):
                assert ended_visibly(said, got), (said, got.raw)
                before_the_head = said in ("nothing", "half a head", "an interim answer")
                assert (got.status == 504) == before_the_head, said
                if said in WITH_A_TOKEN:
                    assert got.text.count(b"tok") == 1
            assert gateway.loads.totals(0) == (0, 0, 0, 0)
            assert (await last_counts(gateway, heard)).get("timeout") == len(SAID)

    run(test())


def test_h12_silent_engine_comments_are_no_token_and_do_not_put_off_its_limit() -> None:
    """The first-token timeout runs through comments, a role, and half an event that grows."""
    alive = [b": ping\n\n", f"data: {ROLE}\n\n".encode(), b"x", b"\n"]

    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD)
        while not peer.writer.is_closing():
            await peer.send(chunk(alive[number(peer)]))
            await asyncio.sleep(0.05)

    async def test() -> None:
        limits = LimitsSpec(first_token_timeout_s=0.5)
        async with running(Engine(script), limits=limits) as gateway, told(gateway.run_dir) as heard:
            for got in await ask_each(gateway.port, len(alive)):
                assert not got.is_whole and b"upstream_cut" in got.text
            assert (await last_counts(gateway, heard)).get("timeout") == len(alive)

    run(test())


def test_h12_silent_engine_comments_after_a_token_are_a_sign_of_life() -> None:
    """They put off the idle timeout, for as long as they come, and no longer."""

    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD, event(TOKEN))
        for _ in range(30):
            await peer.send(chunk(b": ping\n\n"))
            await asyncio.sleep(0.1)
        if number(peer):
            await peer.send(event(FINISH), LAST)
        await peer.left()

    async def test() -> None:
        limits = LimitsSpec(idle_timeout_s=2.0, first_token_timeout_s=2.0)
        async with running(Engine(script), limits=limits) as gateway:
            cut, whole = await ask_each(gateway.port, 2)
            assert cut.text.count(b": ping") == whole.text.count(b": ping") == 30
            assert whole.is_whole and not cut.is_whole and b"upstream_cut" in cut.text

    run(test())


@pytest.mark.parametrize("said", ["nothing", "a head", "a token"])
def test_h12_silent_engine_costs_the_others_nothing(said: str) -> None:
    """With a hundred requests hanging at one engine, those of the other are answered as ever."""
    limits = LimitsSpec(first_token_timeout_s=60, idle_timeout_s=60, drain_s=0.1)

    async def silent(peer: Peer) -> None:
        await peer.send(SAID[said])
        await peer.left()

    async def test() -> None:
        hung, healthy = Engine(silent), Engine(streams(TOKEN, FINISH))
        await hung.start()
        await healthy.start()
        fleets = [
            FleetSpec(name, (name,), False, (EngineSpec(n, engine.url, kind="vllm"),), "least_load")
            for n, (name, engine) in enumerate((("hung", hung), ("healthy", healthy)))
        ]
        async with running(hung, healthy, fleets=fleets, limits=limits) as gateway:
            waiting = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(100)]
            for _, writer in waiting:
                writer.write(post(CHAT.replace(b'"m"', b'"hung"'), PATH))
            await until(lambda: len(hung.asked) == 100)
            request = post(CHAT.replace(b'"m"', b'"healthy"'), PATH)
            got = await at_once(ask(gateway.port, request, timeout_s=30) for _ in range(200))
            assert all(one.is_whole and b"tok" in one.text for one in got)
            assert gateway.inflight(0) == 100
            for _, writer in waiting:
                writer.close()
            await until(lambda: gateway.inflight(0) == 0)

    run(test())


def test_h12_silent_engine_in_a_fleet_leaves_the_others_load_to_choose_by() -> None:
    """Requests that hang count as load: the rest of the traffic goes where it is served."""

    async def silent(peer: Peer) -> None:
        await peer.left()

    async def test() -> None:
        hung, healthy = Engine(silent), Engine(streams(TOKEN, FINISH))
        limits = LimitsSpec(first_token_timeout_s=60, drain_s=0.1)
        async with running(hung, healthy, limits=limits) as gateway:
            asking = [asyncio.ensure_future(ask(gateway.port, post())) for _ in range(200)]  # noqa: TID251
            await until(lambda: sum(one.done() for one in asking) + gateway.inflight(0) == 200)
            done, waiting = await asyncio.wait(asking, timeout=0)
            assert all(one.result().is_whole for one in done)
            assert len(waiting) == gateway.inflight(0) <= 120  # about its half, while nobody was answered
            more = await at_once((ask(gateway.port, post(), timeout_s=30) for _ in range(100)), 1)
            assert all(b"tok" in one.text for one in more)
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    run(test())


def test_h12_silent_engine_that_takes_no_connection_is_given_up_too() -> None:
    """A full backlog answers no SYN: the connect timeout ends the wait, with a 502 or another engine."""

    async def test() -> None:
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            fillers = [socket.socket() for _ in range(4)]
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(full.getsockname())
            url = f"http://127.0.0.1:{full.getsockname()[1]}"
            fleets = [FleetSpec(None, (), True, (EngineSpec(0, url, kind="vllm"),), "least_load")]
            async with running(fleets=fleets, limits=LIMITS) as gateway:
                got = await ask(gateway.port, post())
                assert got.status in (502, 503, 504) and b'"error"' in got.body
                assert gateway.inflight() == 0
            for filler in fillers:
                filler.close()

    run(test())
