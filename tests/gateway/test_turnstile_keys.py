"""Who may ask: known and unknown keys, as clients and engines see them."""

import asyncio

import pytest

from gateway.spec import CorsSpec, EngineSpec, FleetSpec
from tests.admission.staging import spec
from tests.gateway.test_turnstile import (
    ANYBODY,
    GOOD,
    HANDSHAKE,
    KEYS,
    OK,
    ROOM,
    get,
    header,
    is_empty,
    refused,
)
from tests.support import (
    CHAT,
    LAST,
    Engine,
    answers,
    ask,
    chunk,
    parse,
    post,
    running,
)
from tests.support_shared import run


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
