"""After cancelled or failed requests load counters drift: slots are taken for good, routing goes astray."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.spec import LimitsSpec
from tests.failures.support import NOT_STREAMED, number, numbered, reset, told
from tests.support import (
    CHAT,
    FINISH,
    LAST,
    ROLE,
    SSE_HEAD,
    TOKEN,
    Engine,
    Peer,
    Script,
    answers,
    ask,
    chunk,
    event,
    json_answer,
    post,
    running,
    streams,
    until,
)
from tests.support_shared import WAYS, run

BUSY = '{"error":{"message":"busy","code":503}}'
LARGE = b'{"x":"' + b"A" * 40_000 + b'"}'  # goes by unread
LIMITS = LimitsSpec(
    first_token_timeout_s=0.4, idle_timeout_s=0.4, read_bytes=20_000, body_bytes=100_000, drain_s=5.0
)


def after(sent: bytes, ends: Callable[[Peer], object]) -> Script:
    async def script(peer: Peer) -> None:
        await peer.send(sent)
        await asyncio.sleep(0.005)
        ends(peer)

    return script


def silent_after(sent: bytes) -> Script:
    async def script(peer: Peer) -> None:
        await peer.send(sent)
        await peer.left()

    return script


# How engines end what they were asked.
ENGINES: dict[str, Script] = {
    "a stream": streams(ROLE, TOKEN, FINISH),
    "a body": answers(json_answer(b"{}")),
    "nothing to say": answers(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "a truncated stream": streams(TOKEN, done=False),
    "an error event": streams(TOKEN, BUSY),
    "busy inside a 200": streams(BUSY),
    "busy": answers(json_answer(b"{}", "503 Busy", "Retry-After: 30")),
    "a client's error": answers(json_answer(b"{}", "400 Bad")),
    "its own error": answers(json_answer(b"{}", "500 Oops")),
    "a redirect": answers(json_answer(b"{}", "307 Else", "Location: /else")),
    "until its connection's end": after(b"HTTP/1.1 200 OK\r\n\r\nall", Peer.close),
    "more than it promised": answers(json_answer(b"{}") + b"and more"),
    "an interim answer first": answers(b"HTTP/1.1 103 Hints\r\n\r\n" + json_answer(b"{}")),
    "closed unheard": after(b"", Peer.close),
    "reset unheard": after(b"", reset),
    "no http": after(b"\x16\x03\x01 what?\r\n\r\n", lambda peer: None),
    "half a head": after(SSE_HEAD[:30], reset),
    "a head": after(SSE_HEAD, reset),
    "a comment": after(SSE_HEAD + chunk(b": ping\n\n"), reset),
    "a token, then reset": after(SSE_HEAD + event(TOKEN), reset),
    "a token, then closed": after(SSE_HEAD + event(TOKEN), Peer.close),
    "broken chunks": after(SSE_HEAD + event(TOKEN) + b"ZZ\r\n", lambda peer: None),
    "half a body": after(json_answer(b"x" * 99)[:-9], reset),
    "too long a head": after(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000, lambda peer: None),
    "a switch of protocols": answers(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
    "silence": silent_after(b""),
    "silence after a head": silent_after(SSE_HEAD),
    "silence after a token": silent_after(SSE_HEAD + event(TOKEN)),
    "silence in a body": silent_after(json_answer(b"x" * 99)[:-9]),
}
# How clients ask: how their request is sent, besides.
REQUESTS: dict[str, bytes] = {
    "a stream": CHAT,
    "a body": NOT_STREAMED,
    "too large to be read": LARGE,
    "not json": b"{not json",
    "nothing": b"",
}


async def served(port: int) -> bool:
    """A normal request after all of that."""
    return (await ask(port, numbered(list(ENGINES).index("a stream")))).text.endswith(b"[DONE]\n\n")


@pytest.mark.parametrize("engines", [1, 2])
def test_h16_slot_never_freed_however_the_engine_ends(engines: int) -> None:
    """Every ending for every kind of request, many at once; then no load is left, and the next is served."""

    async def script(peer: Peer) -> None:
        await list(ENGINES.values())[number(peer)](peer)

    async def test() -> None:
        fleet = [Engine(script) for _ in range(engines)]
        async with running(*fleet, limits=LIMITS) as gateway, told(gateway.run_dir) as heard:
            left: list[str] = []

            async def ending(n: int) -> None:
                bodies = [body for body in REQUESTS.values() for _ in range(2)]
                await asyncio.gather(*(ask(gateway.port, numbered(n, body)) for body in bodies))

            await asyncio.gather(*map(ending, range(len(ENGINES))))
            totals = [gateway.loads.totals(n) for n in range(engines)]
            assert totals == [(0, 0, 0, 0)] * engines
            for n, name in enumerate(ENGINES):  # one by one, to name the one at fault
                if n % 3 == engines and not name.startswith("silence"):
                    await ending(n)
                    if any(gateway.loads.totals(m) != (0, 0, 0, 0) for m in range(engines)):
                        left.append(name)
            assert left == []
            assert await served(gateway.port)
            await until(lambda: [engine["inflight"] for engine in heard.engines] == [0] * engines)
            await until(lambda: heard.frames[-1]["connections"] == 0)

    run(test())


def test_h16_slot_never_freed_however_and_whenever_the_client_leaves() -> None:
    """From each ending of the engine, in each way: before, while and after it came."""

    async def script(peer: Peer) -> None:
        await list(ENGINES.values())[number(peer)](peer)

    async def test() -> None:
        async with running(Engine(script), Engine(script), limits=LIMITS) as gateway:

            async def leave(n: int, way: str, wait_ms: int, body: bytes) -> None:
                _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                writer.write(numbered(n, body, close=False))
                await asyncio.sleep(wait_ms / 1e3)
                WAYS[way](writer)
                writer.close()

            await asyncio.gather(
                *(
                    leave(n, way, wait_ms, body)
                    for n in range(len(ENGINES))
                    for way in WAYS
                    for wait_ms in (0, 2, 6)
                    for body in (CHAT, LARGE)
                )
            )
            await until(lambda: gateway.loads.totals(0) == gateway.loads.totals(1) == (0, 0, 0, 0))
            assert await served(gateway.port)

    run(test())


async def half_and_gone(port: int, request: bytes) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    await asyncio.sleep(0.01)
    writer.close()


CHUNKED = b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n"
EXPECTING = post(LARGE * 4, "/v1/chat/completions", "Expect: 100-continue")
# How the gateway itself ends requests, and what clients do wrong half-way.
OURS: dict[str, Callable[[int], Awaitable[object]]] = {
    "too large, as announced": lambda port: ask(port, post(LARGE * 4)),
    "too large, as it turns out": lambda port: ask(port, CHUNKED + chunk(b"A" * 30_000) * 5 + LAST),
    "too large, and expecting": lambda port: ask(port, EXPECTING),
    "a chunk that is none": lambda port: ask(port, CHUNKED + chunk(b"{") + b"ZZ\r\n"),
    "a chunk that is none, gone by": lambda port: ask(port, CHUNKED + chunk(b"A" * 30_000) + b"ZZ\r\n"),
    "a path not relayed": lambda port: ask(port, post(CHAT, "/pause")),
    "half a body": lambda port: half_and_gone(port, post(CHAT)[:-5]),
    "half a body gone by": lambda port: half_and_gone(port, post(LARGE)[:-5]),
    "half a chunk gone by": lambda port: half_and_gone(port, CHUNKED + chunk(b"A" * 30_000)[:-99]),
    "a half-written second request": lambda port: ask(
        port, post(CHAT, close=False) + b"POST /v1/x"[:7] + b"\0\r\n\r\n"
    ),
    "HEAD": lambda port: ask(port, b"HEAD /v1/x HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n"),
}


@pytest.mark.parametrize("takes", [True, False], ids=["an engine that answers", "an engine that waits"])
def test_h16_slot_never_freed_however_the_gateway_refuses(takes: bool) -> None:
    async def script(peer: Peer) -> None:
        if takes or peer.line.endswith("?0 HTTP/1.1"):
            await streams(TOKEN, FINISH)(peer)
        else:
            await peer.left()

    async def test() -> None:
        async with running(Engine(script), limits=LIMITS) as gateway:
            for name, ends in OURS.items():
                await asyncio.gather(*(ends(gateway.port) for _ in range(3)))
                try:
                    await until(lambda: gateway.loads.totals(0) == (0, 0, 0, 0), 30)
                except TimeoutError:
                    pytest.fail(f"{name}: {gateway.loads.totals(0)} are left")
            assert (await ask(gateway.port, numbered(0))).text.endswith(b"[DONE]\n\n")

    run(test())


def test_h16_slot_never_freed_where_nobody_is() -> None:
    """Connections refused, and none of the engines left: refusals charge nobody."""

    async def test() -> None:
        engine = Engine(streams(TOKEN, FINISH))
        async with running(engine) as gateway:
            await engine.stop()
            statuses: list[int] = []
            while not statuses or statuses[-1] != 503:
                got = await asyncio.gather(*(ask(gateway.port, post()) for _ in range(5)))
                statuses += [one.status for one in got]
                assert set(statuses) <= {502, 503} and len(statuses) < 200
            assert gateway.loads.totals(0) == (0, 0, 0, 0)
            await engine.start()

            async def again() -> None:
                while (await ask(gateway.port, post())).status != 200:
                    await asyncio.sleep(0.05)

            await asyncio.wait_for(again(), 30)
            assert gateway.loads.totals(0) == (0, 0, 0, 0)

    run(test())


def test_h16_slot_never_freed_when_a_drain_cuts_what_runs() -> None:
    async def test() -> None:
        engine = Engine(silent_after(SSE_HEAD + event(TOKEN)))
        async with running(engine, limits=LimitsSpec(drain_s=0.2)) as gateway:
            asking = [asyncio.ensure_future(ask(gateway.port, post())) for _ in range(10)]  # noqa: TID251
            await until(lambda: gateway.inflight() == 10)
            gateway.stop.set()
            got = await asyncio.gather(*asking)
            assert not any(one.is_whole for one in got if one.raw)
            await until(lambda: gateway.loads.totals(0) == (0, 0, 0, 0), 30)

    run(test())
