"""The engine fails after tokens were forwarded, the gateway starts over: the client reads two beginnings."""

import asyncio
import json
from collections import Counter
from itertools import product
from typing import Any

import pytest

from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from tests.connections import unheard
from tests.failures.support import PATH, ask_each, at_once, last_counts, number, numbered, reset, told
from tests.support import (
    FINISH,
    LAST,
    ROLE,
    SSE_HEAD,
    TOKEN,
    Engine,
    Peer,
    answers,
    ask,
    chunk,
    event,
    json_answer,
    post,
    running,
    streams,
)
from tests.support_shared import hangs, run


def error(code: Any) -> str:
    return json.dumps({"error": {"message": "busy", "type": "x", "param": None, "code": code}})


async def closes(peer: Peer) -> None:
    peer.close()


async def resets(peer: Peer) -> None:
    reset(peer)


async def talks_nonsense(peer: Peer) -> None:
    await peer.send(b"ZZ\r\n\r\n")


async def says_it_is_busy(peer: Peer) -> None:
    await peer.send(event(error(503)), LAST)


async def ends_too_early(peer: Peer) -> None:
    await peer.send(LAST)


FAILURES = [closes, resets, talks_nonsense, says_it_is_busy, ends_too_early, hangs]
# What the client was given when the engine failed: events whole, in part, or an answer in one piece.
GIVEN: dict[str, list[bytes]] = {
    "a role": [SSE_HEAD, event(ROLE)],
    "a token": [SSE_HEAD, event(TOKEN)],
    "three events": [SSE_HEAD, event(ROLE), event(TOKEN), event(TOKEN)],
    "an event and a half": [SSE_HEAD, event(ROLE), chunk(b"data: {")],
    "an event after a comment": [SSE_HEAD, chunk(b": ping\n\n"), event(ROLE)],
    "half of a body": [SSE_HEAD.replace(b"text/event-stream", b"application/json"), chunk(b'{"tok')],
    "the head of a body": [SSE_HEAD.replace(b"text/event-stream", b"application/json")],
    "a compressed stream": [SSE_HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n", chunk(b"\x1f\x8b")],
}


def test_h10_retry_after_first_token_never_happens() -> None:
    """Whatever was given, however the engine then fails: it was the only one asked, and the failure shows."""
    cases = list(product(GIVEN, FAILURES))

    async def script(peer: Peer) -> None:
        given, fails = cases[number(peer)]
        await peer.send(*GIVEN[given])
        await asyncio.sleep(0.01)
        await fails(peer)

    async def test() -> None:
        engines = Engine(script), Engine(script)
        limits = LimitsSpec(idle_timeout_s=0.3, first_token_timeout_s=0.3)
        async with running(*engines, limits=limits) as gateway, told(gateway.run_dir) as heard:
            for case, got in enumerate(await ask_each(gateway.port, len(cases))):
                fails = cases[case][1]
                assert got.status == 200, cases[case]
                assert got.text.count(b'"assistant"') <= 1 and got.text.count(b": ping") <= 1, cases[case]
                engines_own_end = fails in (says_it_is_busy, ends_too_early)
                assert got.is_whole == engines_own_end, cases[case]
            asked = Counter(map(number, (*engines[0].asked, *engines[1].asked)))
            assert asked == Counter(range(len(cases)))
            assert (await last_counts(gateway, heard)).get("requests") == len(cases)
            assert heard.counts["retried"] == 0
            assert gateway.loads.totals(0) == gateway.loads.totals(1) == (0, 0, 0, 0)

    run(test())


RETRIED = (429, 502, 503)
STATUSES = list(range(400, 600))


@pytest.mark.parametrize("form", ["a status", "an event", "an event after a comment", "an event of words"])
def test_h10_retry_before_the_first_event_only_for_what_another_engine_may_do_better(form: str) -> None:
    """429, 502 and 503, as a status or in the first event, go to the other engine; all others pass."""

    async def refuses(peer: Peer) -> None:
        code = STATUSES[number(peer)]
        if form == "a status":
            await peer.send(json_answer(error(code).encode(), f"{code} Reason", "Retry-After: 7"))
        else:
            comment = chunk(b": ping\n\n") if "comment" in form else b""
            said = error(str(code) if "words" in form else code)
            await peer.send(SSE_HEAD, comment, event(said), LAST)

    async def test() -> None:
        # Each request meets the engine that refuses first, for the other is not yet known to be less busy.
        refusing, serving = Engine(refuses), Engine(streams(TOKEN, FINISH))
        async with running(refusing, serving, policy="round_robin") as gateway:
            first: list[int] = []
            for n, code in enumerate(STATUSES):
                before = len(refusing.asked)
                got = await ask(gateway.port, numbered(n))
                if len(refusing.asked) == before:
                    continue  # the turn was the other's
                first.append(code)
                served = got.status == 200 and b"tok" in got.text
                assert served == (code in RETRIED) and got.is_whole, code
                if not served:
                    assert b"busy" in got.text and (form != "a status" or got.status == code)
            assert len(first) > 90

    run(test())


async def refused_by_status(peer: Peer) -> None:
    await peer.send(json_answer(b"{}", "503 Busy"))


async def head_then_reset(peer: Peer) -> None:
    await peer.send(SSE_HEAD)
    await asyncio.sleep(0.01)
    reset(peer)


async def half_an_event_then_reset(peer: Peer) -> None:
    await peer.send(SSE_HEAD, chunk(b'data: {"choices":'))
    await asyncio.sleep(0.01)
    reset(peer)


async def comment_then_reset(peer: Peer) -> None:
    await peer.send(SSE_HEAD, chunk(b": wait\n\n"))
    await asyncio.sleep(0.05)
    reset(peer)


async def half_a_head_then_reset(peer: Peer) -> None:
    await peer.send(SSE_HEAD[:20])
    await asyncio.sleep(0.01)
    reset(peer)


HELD = LimitsSpec(hold_head_ms=20_000, drain_s=5.0)  # a head is never passed on for its age
SINGLE_BYTES = [chunk(bytes([byte])) for byte in f"data: {error(503)}\n\n".encode()]
BEFORE_AN_EVENT = {
    "429": answers(json_answer(b"{}", "429 Too Many Requests")),
    "502": answers(json_answer(b"{}", "502 Bad Gateway")),
    "503": refused_by_status,
    "inside a 200": streams(error(503)),
    "inside a 200, after a comment": answers(SSE_HEAD, chunk(b": ping\n\n"), event(error(503)), LAST),
    "inside a 200, in single bytes": answers(SSE_HEAD, *SINGLE_BYTES, LAST),
    "no byte": resets,
    "half a head": half_a_head_then_reset,
    "a head": head_then_reset,
    "half an event": half_an_event_then_reset,
    "a comment": comment_then_reset,
}


@pytest.mark.parametrize("way", BEFORE_AN_EVENT)
def test_h10_retry_before_the_first_event_gives_one_beginning(way: str) -> None:
    """Before anything but comments was given, another engine may answer: whole, and once."""

    async def test() -> None:
        failing, serving = Engine(BEFORE_AN_EVENT[way]), Engine(streams(TOKEN, FINISH))
        async with running(failing, serving, policy="round_robin", limits=HELD) as gateway:
            got = [await ask(gateway.port, post()) for _ in range(4)]
            assert [(one.status, one.text.count(b"tok"), one.is_whole) for one in got] == [(200, 1, True)] * 4
            assert failing.asked and all(one.raw.count(b"HTTP/1.1 ") == 1 for one in got)
            assert gateway.loads.totals(0) == gateway.loads.totals(1) == (0, 0, 0, 0)

    run(test())


def test_h10_retry_when_nobody_listens_at_the_first_engine() -> None:
    async def test() -> None:
        with unheard() as port:
            serving = Engine(streams(TOKEN, FINISH))
            await serving.start()
            specs = (
                EngineSpec(0, f"http://127.0.0.1:{port}", kind="vllm"),
                EngineSpec(1, serving.url, kind="vllm"),
            )
            fleets = [FleetSpec(None, (), True, specs, "round_robin")]
            async with running(serving, fleets=fleets) as gateway, told(gateway.run_dir) as heard:
                for _ in range(6):
                    got = await ask(gateway.port, post())
                    assert got.status == 200 and got.text.count(b"tok") == 1
                assert (await last_counts(gateway, heard)).get("retried", 0) > 0

    run(test())


def test_h10_retry_when_every_engine_refuses_the_last_refusal_is_passed_on() -> None:
    async def test() -> None:
        engines = [Engine(streams(error(503))), Engine(streams(error(503)))]
        async with running(*engines) as gateway:
            got = await ask(gateway.port, post())
        assert got.text.count(b'"busy"') == 1 and got.is_whole
        assert [len(engine.asked) for engine in engines] == [1, 1]

    run(test())


@pytest.mark.parametrize("retries", [0, 1, 2, 3])
def test_h10_retry_of_one_request_is_bounded_and_asks_no_engine_twice(retries: int) -> None:
    async def test() -> None:
        engines = [Engine(refused_by_status) for _ in range(5)]
        async with running(*engines, limits=LimitsSpec(retries=retries)) as gateway:
            assert (await ask(gateway.port, post())).status == 503
        assert sum(len(engine.asked) for engine in engines) == 1 + retries
        assert max(len(engine.asked) for engine in engines) == 1

    run(test())


def test_h10_retry_of_all_requests_is_bounded_by_a_share_of_the_traffic() -> None:
    """When a whole fleet refuses, it is not asked three times for each request."""

    async def test() -> None:
        engines = [Engine(refused_by_status) for _ in range(3)]
        async with running(*engines) as gateway:
            assert {got.status for got in await ask_each(gateway.port, 400)} <= {503}
        assert 400 < sum(len(engine.asked) for engine in engines) < 600

    run(test())


def test_h10_retry_after_a_refusal_waits_a_drawn_while() -> None:
    """Those an engine refused together do not come back together."""

    async def test() -> None:
        at_s: dict[int, list[float]] = {}

        def kept(answer: bytes) -> Engine:
            async def script(peer: Peer) -> None:
                at_s.setdefault(number(peer), []).append(asyncio.get_running_loop().time())
                await peer.send(answer)

            return Engine(script)

        busy, free = json_answer(b"{}", "429 Busy"), json_answer(b"{}")
        limits = LimitsSpec(retry_per_s=1000.0)
        async with running(kept(busy), kept(free), policy="round_robin", limits=limits) as gateway:
            for n in range(60):
                assert (await ask(gateway.port, numbered(n))).status == 200
        waits_ms = sorted((one[1] - one[0]) * 1e3 for one in at_s.values() if len(one) == 2)
        assert len(waits_ms) >= 10
        # Without a wait the second engine is asked within a millisecond.
        assert waits_ms[len(waits_ms) // 2] > 5 and waits_ms[-2] - waits_ms[1] > 5

    run(test())


def test_h10_retry_never_follows_a_promised_length() -> None:
    """A stream with a length whose comments were passed on: what another engine says would not fit it."""
    busy = f": wait\n\ndata: {error(503)}\n\n".encode()

    async def script(peer: Peer) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(busy)
        await peer.send(head, busy[:8])
        await asyncio.sleep(0.05)
        await peer.send(busy[8:])

    async def test() -> None:
        engines = Engine(script), Engine(streams(TOKEN, FINISH))
        async with running(*engines, policy="round_robin") as gateway:
            for _ in range(2):
                got = await ask(gateway.port, post())
                assert got.is_whole and (got.text == busy or b"tok" in got.text)

    run(test())


@pytest.mark.parametrize(
    "second",
    [
        answers(json_answer(b'{"error":{"message":"broken"}}', "500 Oops")),
        answers(json_answer(b'{"error":{"message":"busy"}}', "503 Oops")),
        answers(json_answer(b"{}")),
        answers(SSE_HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n", chunk(b"\x1f\x8b"), LAST),
        resets,
    ],
    ids=["an error", "a refusal", "no events", "compressed events", "nothing"],
)
def test_h10_retry_after_comments_that_fails_too_is_an_event_and_no_clean_end(second: Any) -> None:
    """The client has the head of an event stream: what the other engine answers cannot be put into it."""

    async def test() -> None:
        first, other = Engine(comment_then_reset), Engine(second)
        async with running(first, other, policy="round_robin") as gateway:
            while not first.asked:
                got = await ask(gateway.port, post())
            assert other.asked and got.status == 200 and not got.is_whole
            assert got.text.startswith(b": wait") and b'data: {"error"' in got.text
            assert got.raw.count(b"HTTP/1.1 ") == 1

    run(test())


def test_h10_retry_of_a_body_that_went_by_unread_never_happens() -> None:
    """It is not there any more; the client, who has it, is told to send it again."""

    async def test() -> None:
        engines = [Engine(refused_by_status), Engine(refused_by_status)]
        body = b'{"model":"m","x":"' + b"A" * 100_000 + b'"}'
        async with running(*engines, limits=LimitsSpec(read_bytes=10_000)) as gateway:
            got = await at_once(ask(gateway.port, post(body, PATH)) for _ in range(10))
        assert [one.status for one in got] == [503] * 10
        assert sum(len(engine.asked) for engine in engines) == 10

    run(test())


def test_h10_retry_after_a_first_event_nested_without_end_never_happens() -> None:
    """A first event that no parser can read is an answer, and passed on."""
    deep = '{"error":' + '{"a":' * 9000 + "1" + "}" * 9001

    async def test() -> None:
        engines = Engine(streams(deep)), Engine(streams(deep))
        async with running(*engines) as gateway:
            got = await ask(gateway.port, post())
        assert got.is_whole and deep.encode() in got.text
        assert len(engines[0].asked) + len(engines[1].asked) == 1

    run(test())
