"""Requests that are sent again after a while: when and how often; whatever ends the wait leaves nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from time import monotonic_ns

import pytest

from gateway.spec import LimitsSpec
from tests.connections import unheard
from tests.failures.support import at_once, last_counts, told
from tests.support import (
    CHAT,
    FINISH,
    LAST,
    TOKEN,
    Engine,
    Gateway,
    Peer,
    answers,
    ask,
    chunk,
    json_answer,
    post,
    running,
    streams,
    until,
)
from tests.support_shared import run
from wire.exchange import Ending
from wire.origin import Origin
from wire.upstream import Pool

GOOD = streams(TOKEN, FINISH)
PATH = "/v1/chat/completions"


def busy(after_s: float | None, status: str = "429 Too Many Requests") -> bytes:
    return json_answer(b"{}", status, *([] if after_s is None else [f"Retry-After: {after_s:g}"]))


async def a_while(engine: Engine, count: int = 1) -> None:
    """Until an engine has refused so many and the gateway has heard of it."""
    await until(lambda: len(engine.asked) >= count)
    await asyncio.sleep(0.1)


def test_an_engine_that_names_a_time_is_asked_again_then_where_there_is_no_other() -> None:
    async def test() -> None:
        at_s: list[float] = []

        async def script(peer: Peer) -> None:
            at_s.append(asyncio.get_running_loop().time())
            await (answers(busy(1)) if len(at_s) == 1 else GOOD)(peer)

        engine = Engine(script)
        async with running(engine, limits=LimitsSpec(drain_s=5)) as gateway:
            assert (await ask(gateway.port, post())).status == 200
            assert len(at_s) == 2 and at_s[1] - at_s[0] >= 0.99
            engine.script = answers(busy(60))
            got = await ask(gateway.port, post())
            assert got.status == 429 and got.header("retry-after") == ["60"]  # too long: the client may wait
            assert len(engine.asked) == 3

    run(test())


@pytest.mark.parametrize("retries", [0, 1, 2, 5])
def test_a_request_is_sent_again_so_many_times_at_most(retries: int) -> None:
    async def test() -> None:
        engines = [Engine(answers(busy(0))) for _ in range(3)]
        limits = LimitsSpec(retries=retries, drain_s=5)
        async with running(*engines, limits=limits, policy="round_robin") as gateway:
            got = await ask(gateway.port, post())
            assert got.status == 429 and sum(len(engine.asked) for engine in engines) == 1 + retries

    run(test())


@pytest.mark.parametrize("says_so", ["by status", "inside a 200"])
def test_where_one_engine_has_no_room_and_the_other_is_not_there_the_client_hears_of_the_room(
    says_so: str,
) -> None:
    async def test() -> None:
        event = streams('{"error":{"code":429,"message":"the queue is full"}}')
        full, gone = Engine(answers(busy(None)) if says_so == "by status" else event), Engine(GOOD)
        async with running(full, gone, policy="round_robin") as gateway:
            assert (await ask(gateway.port, post())).status == 200  # by the second: the first's turn is next
            await gone.stop()
            answer = await ask(gateway.port, post())
            assert answer.status == 429 and b"no other could be reached" in answer.text, answer.raw
            assert not any(gateway.loads.totals(0)) and not any(gateway.loads.totals(1))

    run(test())


def test_after_a_refused_connection_the_next_engine_is_asked_at_once_and_nobody_waits() -> None:
    async def test() -> None:
        gone, good = Engine(GOOD), Engine(GOOD)
        async with running(gone, good, policy="round_robin") as gateway, told(gateway.run_dir) as heard:
            await gone.stop()
            for _ in range(4):
                assert (await ask(gateway.port, post())).status == 200
            counts = await last_counts(gateway, heard)
            assert counts["complete"] == 4 and 1 <= counts["retried"] <= 2

    run(test())


async def leaves(gateway: Gateway, engine: Engine) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(post())
    await a_while(engine)
    writer.close()


async def resets(gateway: Gateway, engine: Engine) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(post())
    await a_while(engine)
    writer.transport.abort()


async def sends_rubbish(gateway: Gateway, engine: Engine) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(post(close=False))
    await a_while(engine)
    writer.write(b"no HTTP\r\n\r\n")
    await reader.read()
    writer.close()


async def asks_more(gateway: Gateway, engine: Engine) -> None:
    """Another request behind it, and away."""
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(post(close=False))
    await a_while(engine)
    writer.write(post() * 20)
    await asyncio.sleep(0.05)
    writer.close()


async def the_engine_goes(gateway: Gateway, engine: Engine) -> None:
    asking = asyncio.get_running_loop().create_task(ask(gateway.port, post()))
    await a_while(engine)
    await engine.stop()
    assert (await asking).status in (502, 503)


async def the_gateway_stops(gateway: Gateway, engine: Engine) -> None:
    asking = asyncio.get_running_loop().create_task(ask(gateway.port, post()))
    await a_while(engine)
    gateway.stop.set()
    got = await asking
    assert got.status == 503 and got.is_whole and got.header("retry-after")


async def the_fleet_changes(gateway: Gateway, engine: Engine) -> None:
    other = Engine(GOOD)
    await other.start()
    asking = asyncio.get_running_loop().create_task(ask(gateway.port, post()))
    await a_while(engine)
    (fleet,) = gateway.spec.fleets
    spec = replace(fleet.engines[0], id=1, url=other.url)
    assert await gateway.renew(fleets=(replace(fleet, engines=(spec,)),)) is None
    assert (await asking).status in (200, 503)
    await other.stop()


async def it_is_refused_again(gateway: Gateway, engine: Engine) -> None:
    assert (await ask(gateway.port, post())).status == 429


async def it_is_served(gateway: Gateway, engine: Engine) -> None:
    asking = asyncio.get_running_loop().create_task(ask(gateway.port, post()))
    await a_while(engine)
    engine.script = GOOD
    assert (await asking).status == 200


ENDINGS: list[Callable[[Gateway, Engine], Awaitable[None]]] = [
    leaves, resets, sends_rubbish, asks_more, the_engine_goes, the_gateway_stops, the_fleet_changes,
    it_is_refused_again, it_is_served,
]  # fmt: skip


@pytest.mark.parametrize("end", ENDINGS, ids=[one.__name__ for one in ENDINGS])
def test_whatever_ends_the_wait_one_outcome_is_counted_and_nothing_left(
    end: Callable[[Gateway, Engine], Awaitable[None]],
) -> None:
    """No load, no timer that sends it after all, no second outcome."""

    async def test() -> None:
        engine = Engine(answers(busy(2)))
        limits = LimitsSpec(retry_wait_s=3.0, drain_s=0.3, retries=1)
        async with running(engine, limits=limits) as gateway, told(gateway.run_dir) as heard:
            await end(gateway, engine)
            asked = len(engine.asked)
            await until(lambda: gateway.inflight() == 0)
            if end in (leaves, resets, asks_more):
                await asyncio.sleep(2.5)  # beyond the time that the engine named
                assert len(engine.asked) == asked == 1
            if end is not the_gateway_stops:
                await last_counts(gateway, heard)
            else:
                await until(lambda: bool(heard.frames) and heard.frames[-1]["connections"] == 0)
            outcomes = {k: n for k, n in heard.counts.items() if k not in ("requests", "retried")}
            assert sum(outcomes.values()) == heard.counts["requests"], outcomes
            assert gateway.inflight() == 0

    run(test())


def chunked(body: bytes) -> bytes:
    head = f"POST {PATH} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nConnection: close\r\n"
    pieces = b"".join(chunk(body[at : at + 700]) for at in range(0, len(body), 700))
    return head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + pieces + LAST


@pytest.mark.parametrize("in_chunks", [False, True], ids=["with a length", "in chunks"])
@pytest.mark.parametrize("size", [1_001, 5_000, 3_000_000])
def test_a_body_that_goes_by_reaches_another_engine_whole_when_its_first_is_not_there(
    size: int, in_chunks: bool
) -> None:
    async def test() -> None:
        gone, good = Engine(GOOD), Engine(GOOD)
        limits = LimitsSpec(read_bytes=1000, drain_s=5)
        body = CHAT[:-1] + b',"x":"' + b"y" * size + b'"}'
        async with (
            running(gone, good, limits=limits, policy="round_robin") as gateway,
            told(gateway.run_dir) as heard,
        ):
            await gone.stop()
            for _ in range(2):
                got = await ask(gateway.port, chunked(body) if in_chunks else post(body, PATH))
                assert got.status == 200 and got.is_whole
                assert good.asked[-1].body == body
            assert (await last_counts(gateway, heard))["retried"] >= 1
            assert gateway.inflight(0) == gateway.inflight(1) == 0

    run(test())


def test_a_body_that_goes_by_is_sent_to_no_other_engine_once_one_has_part_of_it() -> None:
    async def test() -> None:
        async def resets_early(peer: Peer) -> None:
            peer.reset()

        engines = Engine(resets_early), Engine(resets_early)
        limits = LimitsSpec(read_bytes=1000, drain_s=5)
        async with running(*engines, limits=limits, policy="round_robin") as gateway:
            got = await ask(gateway.port, post(b"[" + b"1," * 5000))
            assert got.status == 502 and sum(len(engine.asked) for engine in engines) == 1

    run(test())


def test_a_body_that_goes_by_to_nobody_ends_in_words_and_is_heard_out() -> None:
    async def test() -> None:
        gone, also = Engine(GOOD), Engine(GOOD)
        limits = LimitsSpec(read_bytes=1000, drain_s=5)
        async with running(gone, also, limits=limits, policy="round_robin") as gateway:
            await gone.stop()
            await also.stop()
            got = await at_once(ask(gateway.port, post(b"[" + b"1," * 500_000)) for _ in range(4))
            assert {one.status for one in got} <= {502, 503}
            assert gateway.inflight(0) == gateway.inflight(1) == 0

    run(test())


@pytest.mark.parametrize("expects", [False, True])
def test_a_length_above_the_limit_is_refused_before_a_byte_of_the_body(expects: bool) -> None:
    async def test() -> None:
        engine = Engine(GOOD)
        async with running(engine, limits=LimitsSpec(body_bytes=1000, drain_s=5)) as gateway:
            head = post(b"x" * 1001, PATH, *(["Expect: 100-continue"] if expects else []), close=False)
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(head[: head.index(b"\r\n\r\n") + 4])
            said = await asyncio.wait_for(reader.read(), 30)
            assert said.startswith(b"HTTP/1.1 413 ") and b"Connection: close" in said
            writer.close()
            fits = await ask(gateway.port, post(CHAT, PATH, "Expect: 100-continue"))
            assert fits.raw.startswith(b"HTTP/1.1 100 ") and len(engine.asked) == 1

    run(test())


def test_the_time_of_sending_is_that_of_a_connected_socket() -> None:
    """What waits for a connection was not sent."""

    async def test() -> None:
        class Kept:
            ending: Ending | None = None

            def head_came(self, *_: object, **__: object) -> None: ...

            def body_came(self, *_: object) -> None: ...

            def ended(self, ending: Ending, at_ns: int) -> None:
                self.ending = ending

        async with running(engine := Engine(answers(json_answer(b"{}")))):
            pool = Pool(Origin.parse(engine.url), loop=asyncio.get_running_loop())
            request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
            for reused in (False, True):
                kept, before_ns = Kept(), monotonic_ns()
                exchange = pool.send(request, kept)
                assert (exchange.written_ns > 0) is reused is exchange.reused
                await until(lambda kept=kept: kept.ending is not None)  # type: ignore[misc]
                assert before_ns < exchange.written_ns < monotonic_ns()
            pool.close()
            with unheard() as port:
                kept = Kept()
                pool = Pool(Origin.parse(f"http://127.0.0.1:{port}"), loop=asyncio.get_running_loop())
                exchange = pool.send(request, kept)
                await until(lambda: kept.ending is Ending.REFUSED)
                assert exchange.written_ns == 0
                pool.close()

    run(test())
