"""Keys, limits, the queue and what is done for want of room, as clients and engines see them."""

import asyncio
import gzip
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from gateway.spec import CorsSpec, EngineSpec, FleetSpec, KeySpec, LimitsSpec, RoomSpec
from tests.admission.staging import key, spec
from tests.connections import listening
from tests.support import (
    CHAT,
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
    chunk,
    event,
    json_answer,
    parse,
    post,
    read_request,
    running,
    streams,
    until,
)
from tests.support_shared import echo, run

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


@pytest.mark.parametrize(
    "request_",
    [
        post(),
        post(b"x" * 300_000),
        post(CHAT, "/v1/embeddings", "Expect: 100-continue"),
        post(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + chunk(CHAT) + LAST,
        get("/v1/models"),
        get("/v1/models/m"),
        get("/v1/responses/1", method="DELETE"),
        HANDSHAKE,
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("shown", "why"),
    [((), "no_key"), (("Authorization: Bearer sl-x",), "unknown_key"), (("x-api-key: sl-",), "unknown_key")],
)
def test_who_is_not_known_is_told_so_and_no_engine_is_asked(
    request_: bytes, shown: tuple[str, ...], why: str
) -> None:
    async def test() -> None:
        engine = Engine(OK)
        async with running(engine, admission=spec(KEYS, ROOM)) as gateway:
            line, _, rest = request_.partition(b"\r\n")
            got = await ask(gateway.port, b"\r\n".join([line, *(one.encode() for one in shown), rest]))
            assert got.status == 401 and got.header("www-authenticate") == ["Bearer"]
            assert refused(got) == why
            assert engine.asked == [] and is_empty(gateway)

    run(test())


@pytest.mark.parametrize(
    "shown",
    [GOOD, "authorization: bearer sl-ann", "Authorization: sl-ann", "X-Api-Key: sl-rob", "x-api-key: sl-ann"],
)
def test_a_known_key_is_taken_and_no_engine_hears_it(shown: str) -> None:
    async def test() -> None:
        own = EngineSpec(0, "", kind="vllm", api_key="engines-own")
        for api_key, heard in ((None, []), ("engines-own", ["Bearer engines-own"])):
            engine = Engine(OK)
            await engine.start()
            told = EngineSpec(0, engine.url, kind=own.kind, api_key=api_key)
            fleets = (FleetSpec(None, (), True, (told,), "least_load"),)
            async with running(engine, fleets=fleets, admission=spec(KEYS, ROOM)) as gateway:
                got = await ask(gateway.port, post(CHAT, "/v1/chat/completions", shown))
                assert got.status == 200 and got.is_whole
                (peer,) = engine.asked
                assert header(peer, "authorization") == heard
                assert not any("sl-ann" in value or "sl-rob" in value for _, value in peer.headers)
                models = await ask(gateway.port, get("/v1/models", shown))
                assert models.status == 200

    run(test())


def test_without_keys_credentials_are_the_engines_to_judge() -> None:
    async def test() -> None:
        engine = Engine(OK)
        async with running(engine, admission=spec((ANYBODY,), ROOM)) as gateway:
            assert (await ask(gateway.port, post(CHAT, "/v1/chat/completions", GOOD))).status == 200
            assert header(engine.asked[0], "authorization") == ["Bearer sl-ann"]

    run(test())


def test_where_anybody_may_ask_an_unknown_key_is_refused_all_the_same() -> None:
    async def test() -> None:
        engine = Engine(OK)
        async with running(engine, admission=spec((*KEYS, ANYBODY), ROOM)) as gateway:
            assert (await ask(gateway.port, post())).status == 200
            got = await ask(gateway.port, post(CHAT, "/v1/chat/completions", "Authorization: Bearer sl-x"))
            assert got.status == 401 and refused(got) == "unknown_key"

    run(test())


@pytest.mark.parametrize("cors", [None, CorsSpec(("https://page",))])
def test_what_browsers_ask_first_and_probes_of_health_need_no_key(cors: CorsSpec | None) -> None:
    async def test() -> None:
        engine = Engine(answers(b"HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Origin: *\r\n\r\n"))
        async with running(engine, admission=spec(KEYS, ROOM), cors=cors) as gateway:
            first = ["Origin: https://page", "Access-Control-Request-Method: POST"]
            got = await ask(gateway.port, get("/v1/chat/completions", *first, method="OPTIONS"))
            assert got.status == 204 and got.header("access-control-allow-origin")
            assert len(engine.asked) == (0 if cors else 1)
            assert (await ask(gateway.port, get("/health"))).status == 200
            told = await ask(gateway.port, post(CHAT, "/v1/chat/completions", "Origin: https://page"))
            assert told.status == 401  # and the page may read why
            assert bool(told.header("access-control-allow-origin")) == bool(cors)
            assert is_empty(gateway)

    run(test())


def test_the_keys_of_now_hold_for_the_next_request_of_a_connection_and_for_a_body_under_way() -> None:
    async def test() -> None:
        engine = Engine(OK)
        async with running(engine) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            halves = []
            for shown in ("Authorization: Bearer sl-x", GOOD):
                halves.append(await asyncio.open_connection("127.0.0.1", gateway.port))
                halves[-1][1].write(post(CHAT, "/v1/chat/completions", shown)[:-5])
            for _ in range(2):
                writer.write(post(CHAT, "/v1/chat/completions", GOOD, close=False))
                await reader.readuntil(b"[DONE]\n\n\r\n0\r\n\r\n")
            assert header(engine.asked[-1], "authorization") == ["Bearer sl-ann"]
            assert await gateway.renew(admission=spec(KEYS, ROOM)) is None
            writer.write(post(CHAT, "/v1/chat/completions", GOOD, close=False))
            await reader.readuntil(b"[DONE]\n\n\r\n0\r\n\r\n")
            assert header(engine.asked[-1], "authorization") == []
            for half, status in zip(halves, (401, 200), strict=True):
                half[1].write(CHAT[-5:])
                assert parse(await half[0].read()).status == status
                assert header(engine.asked[-1], "authorization") == []
                half[1].close()
            assert await gateway.renew(admission=spec(KEYS[1:], ROOM)) is None
            writer.write(post(CHAT, "/v1/chat/completions", GOOD))
            assert parse(await reader.read()).status == 401
            assert len(engine.asked) == 4
            writer.close()

    run(test())


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


def two_fleets(first: Engine, second: Engine) -> tuple[FleetSpec, ...]:
    return tuple(
        FleetSpec(name, (name,), name == "m", (EngineSpec(at, engine.url, kind="vllm"),), "least_load")
        for at, (name, engine) in enumerate((("m", first), ("small", second)))
    )


FORM = (
    b'--xx\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n"model":"m"\r\n'
    b'--xx\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--xx--\r\n'
)


@pytest.mark.parametrize("way", ["json", "gzip", "form", "unread", "unread in chunks"])
def test_another_fleet_takes_what_finds_no_room_under_its_own_models_name(way: str) -> None:
    async def test() -> None:
        turns = Turns()
        first, second = Engine(turns.script), Engine(OK)
        await first.start()
        await second.start()
        rooms = (RoomSpec("m", concurrency=1, fallback="small"), RoomSpec("small"))
        limits = LimitsSpec(drain_s=5.0, read_bytes=5_000)
        async with running(
            first, second, fleets=two_fleets(first, second), limits=limits, admission=spec((ANYBODY,), rooms)
        ) as gateway:
            runs = asking(gateway, post(chat("runs")))
            await until(lambda: len(turns.ends) == 1)
            body = chat("é" * 4_000 if way.startswith("unread") else "é")
            sent = post(body)
            if way == "gzip":
                sent = post(gzip.compress(body), "/v1/chat/completions", "Content-Encoding: gzip")
            elif way == "form":
                sent = post(FORM, "/v1/audio/transcriptions").replace(
                    b"application/json", b"multipart/form-data; boundary=xx"
                )
            elif way == "unread in chunks":
                head = post(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
                sent = head + chunk(body[:6_000]) + chunk(body[6_000:]) + LAST
            got = await ask(gateway.port, sent)
            assert got.status == 200 and got.is_whole
            assert got.header("x-shadowlane-degraded") == ["fleet=small"]
            (peer,) = second.asked
            expected = FORM.replace(b"\r\nm\r\n", b"\r\nsmall\r\n")
            if way != "form":
                expected = body.replace(b'"m"', b'"small"')
            assert peer.body == expected
            assert header(peer, "content-encoding") == []
            turns.end(0)
            whole = await runs
            assert whole.is_whole and whole.header("x-shadowlane-degraded") == []
            assert is_empty(gateway)

    run(test())


@pytest.mark.parametrize("packed", [False, True], ids=["as it is", "gzip"])
@pytest.mark.parametrize(
    ("path", "asked", "got", "is_told"),
    [
        ("/v1/chat/completions", {}, {"max_tokens": 8}, True),
        ("/v1/chat/completions", {"max_completion_tokens": 100}, {"max_completion_tokens": 8}, True),
        ("/v1/chat/completions", {"max_tokens": 3}, {"max_tokens": 3}, False),
        ("/v1/embeddings", {"input": "x"}, {}, False),
    ],
)
def test_who_had_to_wait_gets_a_shorter_answer_and_is_told_where_it_is_shorter(
    path: str, asked: dict[str, Any], got: dict[str, Any], is_told: bool, packed: bool
) -> None:
    async def test() -> None:
        turns = Turns()
        room = (RoomSpec(None, concurrency=1, shorten_to=8),)
        async with running(Engine(turns.script), admission=spec((ANYBODY,), room)) as gateway:
            body = chat("x", **asked)
            sent = post(gzip.compress(body), path, "Content-Encoding: gzip") if packed else post(body, path)
            first = asking(gateway, sent)
            await until(lambda: len(turns.ends) == 1)
            second = asking(gateway, sent)
            await until(lambda: waiting(gateway) == 1)
            turns.end(0)
            await until(lambda: len(turns.ends) == 2)
            turns.end(1)
            assert (await first).header("x-shadowlane-degraded") == []
            told = await second
            assert told.status == 200
            assert told.header("x-shadowlane-degraded") == (["max_tokens=8"] if is_told else [])
            if is_told or not packed:
                heard = json.loads(turns.ends[1][0])
                assert heard == {**json.loads(body), **got}

    run(test())


@pytest.mark.parametrize("waits", [False, True], ids=["nobody waits", "too large to be held"])
def test_a_full_fleet_says_so_to_what_may_not_wait(waits: bool) -> None:
    async def test() -> None:
        turns = Turns()
        room = (RoomSpec(None, concurrency=1, waits=waits),)
        limits = LimitsSpec(drain_s=5.0, read_bytes=50_000)
        async with running(Engine(turns.script), limits=limits, admission=spec((ANYBODY,), room)) as gateway:
            runs = asking(gateway, post(chat("runs")))
            await until(lambda: len(turns.ends) == 1)
            got = await ask(gateway.port, post(chat("A" * 90_000) if waits else CHAT))
            assert got.status == 503 and refused(got) == "fleet_full"
            assert got.header("x-shadowlane-degraded") == ["refused"]
            assert int(got.header("retry-after")[0]) >= 1
            turns.end(0)
            assert (await runs).status == 200
            assert is_empty(gateway)

    run(test())


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


def test_a_websocket_asks_like_any_request_and_its_key_is_not_told_to_the_engine() -> None:
    async def test() -> None:
        offered: list[list[str]] = []

        def choose(connection: ServerConnection, given: Any) -> Subprotocol | None:
            assert connection.request is not None
            offered.append(
                [value for name, value in connection.request.headers.raw_items() if "sl-ann" in value]
            )
            return Subprotocol("realtime") if "realtime" in given else None

        async with serve(
            echo, "127.0.0.1", 0, subprotocols=[Subprotocol("realtime")], select_subprotocol=choose
        ) as s:
            port = next(iter(s.sockets)).getsockname()[1]
            told = EngineSpec(0, f"http://127.0.0.1:{port}", kind="vllm", concurrency=1)
            fleets = (FleetSpec(None, (), True, (told,), "least_load"),)
            once = spec((key("ann", 0, concurrency=2), key("rob", 1)), ROOM, queue_wait_s=0.3)
            async with running(fleets=fleets, admission=once) as gateway:
                url = f"ws://127.0.0.1:{gateway.port}/v1/realtime?model=m"
                browser = [Subprotocol("realtime"), Subprotocol("openai-insecure-api-key.sl-ann")]
                async with connect(url, subprotocols=browser, proxy=None) as one:
                    await one.send("hello")
                    assert await one.recv() == "hello" and one.subprotocol == "realtime"
                    with pytest.raises(InvalidStatus) as waited:  # for the engine's only place, too long
                        await connect(url, additional_headers={"x-api-key": "sl-rob"}, proxy=None)
                    assert waited.value.response.status_code == 503
                    assert int(waited.value.response.headers["retry-after"]) >= 1

                    async def second() -> str:
                        bearer = {"Authorization": "Bearer sl-rob"}
                        async with connect(url, additional_headers=bearer, proxy=None) as two:
                            await two.send("again")
                            return str(await two.recv())

                    waits = asyncio.get_running_loop().create_task(second())
                    await until(lambda: waiting(gateway) == 1)
                    await one.close()
                    assert await waits == "again"
                await until(lambda: is_empty(gateway))
                assert offered == [[], []]

    run(test())


@pytest.mark.parametrize(
    "how", ["refuses", "is not there", "client leaves", "client leaves the queue", "stop"]
)
def test_however_a_websocket_ends_it_holds_nothing_any_more(how: str) -> None:
    async def test() -> None:
        asked = asyncio.Event()

        async def handshake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = await read_request(reader, writer)
            assert peer is not None
            if peer.line.startswith("GET /v1/realtime"):
                asked.set()
                if how == "refuses":
                    await peer.send(json_answer(b"{}", "403 Forbidden"))
                else:
                    await peer.left()

        there = AsyncExitStack()
        port = await there.enter_async_context(listening(handshake))
        told = EngineSpec(0, f"http://127.0.0.1:{port}", kind="vllm", concurrency=1)
        fleets = (FleetSpec(None, (), True, (told,), "least_load"),)
        if how == "is not there":
            await there.aclose()
        limits = LimitsSpec(drain_s=0.2)
        async with there, running(fleets=fleets, limits=limits, admission=spec((ANYBODY,), ROOM)) as gateway:
            _, one = await asyncio.open_connection("127.0.0.1", gateway.port)
            one.write(HANDSHAKE)
            if how != "is not there":
                await asyncio.wait_for(asked.wait(), 30)
            if how == "client leaves the queue":
                _, two = await asyncio.open_connection("127.0.0.1", gateway.port)
                two.write(HANDSHAKE)
                await until(lambda: waiting(gateway) == 1)
                two.close()
                await until(lambda: waiting(gateway) == 0)
            if how.startswith("client"):
                one.close()
            if how == "stop":
                gateway.stop.set()
            await until(lambda: is_empty(gateway))
            one.close()

    run(test())
