"""Browsers: preflights, the fields of every answer, and OPTIONS that is no preflight; over real sockets."""

import pytest

from gateway.spec import CorsSpec, LimitsSpec
from tests.support import (
    CHAT,
    ROLE,
    SSE_HEAD,
    TOKEN,
    Answered,
    Engine,
    Peer,
    answers,
    ask,
    event,
    json_answer,
    post,
    running,
)
from tests.support_shared import run

PAGE = "https://app.example"
RULES = CorsSpec((PAGE, "http://localhost:3000"), expose_headers=("x-request-id",))
OWN_WORD = (
    "Access-Control-Allow-Origin: *",
    "access-control-allow-credentials: true",
    "Vary: Accept-Encoding",
)


def options(*lines: str, target: str = "/v1/chat/completions") -> bytes:
    return "\r\n".join(
        [f"OPTIONS {target} HTTP/1.1", "Host: gw", *lines, "Connection: close", "", ""]
    ).encode()


def preflight(origin: str, *lines: str) -> bytes:
    return options(f"Origin: {origin}", "Access-Control-Request-Method: POST", *lines)


def allowed(answered: Answered) -> list[str]:
    return answered.header("access-control-allow-origin")


def test_a_preflight_is_answered_without_credentials_and_without_an_engine() -> None:
    async def go() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        async with running(engine, cors=RULES) as gateway:
            asked = "authorization,content-type,x-title"
            answered = await ask(gateway.port, preflight(PAGE, f"Access-Control-Request-Headers: {asked}"))
            assert answered.status == 204 and answered.body == b""
            assert allowed(answered) == [PAGE]
            assert "POST" in answered.header("access-control-allow-methods")[0]
            assert answered.header("access-control-allow-headers") == [asked]
            assert answered.header("access-control-max-age") == ["600"]
            assert "Origin" in answered.header("vary")
            assert answered.header("content-length") == []
            stranger = await ask(gateway.port, preflight("https://evil.example"))
            assert (
                stranger.status == 403 and allowed(stranger) == [] and stranger.header("vary") == ["Origin"]
            )
            assert b"evil.example" in stranger.body and stranger.is_whole
            assert engine.asked == []

    run(go())


@pytest.mark.parametrize(
    ("rules", "origin", "expected"),
    [
        (RULES, PAGE, [PAGE]),
        (RULES, "http://localhost:3000", ["http://localhost:3000"]),
        (RULES, PAGE + ".evil.example", []),
        (RULES, "https://APP.example", []),
        (RULES, "null", []),
        (CorsSpec(("*",)), "https://any.example", ["*"]),
    ],
)
def test_exactly_the_gateways_word_goes_out_whatever_the_engine_says(
    rules: CorsSpec, origin: str, expected: list[str]
) -> None:
    async def go() -> None:
        engine = Engine(answers(json_answer(b"{}", "200 OK", *OWN_WORD)))
        async with running(engine, cors=rules) as gateway:
            answered = await ask(gateway.port, post(CHAT, "/v1/chat/completions", f"Origin: {origin}"))
            assert answered.text == b"{}" and allowed(answered) == expected
            assert answered.header("access-control-allow-credentials") == []
            assert "Accept-Encoding" in answered.header("vary")
            assert ("Origin" in answered.header("vary")) == (rules is RULES)
            assert answered.header("access-control-expose-headers") == (
                ["x-request-id"] if expected == [origin] else []
            )
            assert dict(engine.asked[0].headers)["Origin"] == origin

    run(go())


def test_errors_and_streams_have_it_too() -> None:
    async def go() -> None:
        origin = f"Origin: {PAGE}"
        async with running(
            Engine(answers(json_answer(b"{}"))), cors=RULES, limits=LimitsSpec(body_bytes=4096, drain_s=1.0)
        ) as gateway:
            cases = {
                404: post(b"{}", "/pause", origin),
                413: post(b" " * 5000, "/v1/chat/completions", origin),
                400: post(b"{", "/v1/chat/completions", origin),
                501: post(CHAT, "/v1/x", origin, "Upgrade: other", "Connection: upgrade", close=False),
            }
            for status, request in cases.items():
                answered = await ask(gateway.port, request)
                assert (answered.status, allowed(answered)) == (status, [PAGE]), answered.raw
            models = (
                b"GET /v1/models HTTP/1.1\r\nHost: g\r\nOrigin: %b\r\nConnection: close\r\n\r\n"
                % PAGE.encode()
            )
            assert allowed(await ask(gateway.port, models)) == [PAGE]

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(ROLE), event(TOKEN))
            peer.close()

        async with running(Engine(script), cors=RULES) as gateway:
            answered = await ask(gateway.port, post(CHAT, "/v1/chat/completions", origin))
            assert allowed(answered) == [PAGE] and b"upstream_cut" in answered.text

    run(go())


def test_one_requests_word_is_not_the_nexts() -> None:
    """Pipelined on one connection: two pages, then bytes that are no request."""

    async def go() -> None:
        async with running(Engine(answers(json_answer(b"{}"))), cors=RULES) as gateway:
            one = post(CHAT, "/v1/chat/completions", f"Origin: {PAGE}", close=False)
            two = post(CHAT, "/v1/chat/completions", "Origin: http://localhost:3000", close=False)
            raw = (await ask(gateway.port, one + two + b"\0\0\0\r\n\r\n")).raw
            heads = [part.partition(b"\r\n\r\n")[0] for part in raw.split(b"HTTP/1.1 ")[1:]]
            assert [head[:3] for head in heads] == [b"200", b"200", b"400"]
            assert PAGE.encode() in heads[0] and b"localhost:3000" in heads[1]
            assert b"access-control" not in heads[2].lower()

    run(go())


def test_switched_off_the_engines_word_passes_and_its_preflights_too() -> None:
    async def go() -> None:
        engine = Engine(answers(json_answer(b"{}", "200 OK", *OWN_WORD)))
        async with running(engine) as gateway:
            answered = await ask(gateway.port, post(CHAT, "/v1/chat/completions", f"Origin: {PAGE}"))
            assert allowed(answered) == ["*"] and answered.header("vary") == ["Accept-Encoding"]
            answered = await ask(gateway.port, preflight(PAGE))
            assert answered.status == 200 and allowed(answered) == ["*"]
            assert engine.asked[-1].line == "OPTIONS /v1/chat/completions HTTP/1.1"

    run(go())


@pytest.mark.parametrize("cors", [None, RULES])
@pytest.mark.parametrize(
    ("target", "status", "allow"),
    [
        ("/v1/chat/completions", 204, ["GET, HEAD, POST, DELETE, OPTIONS"]),
        ("/v1/models", 204, ["GET, HEAD, OPTIONS"]),
        ("/health", 204, ["GET, HEAD, OPTIONS"]),
        ("*", 204, ["GET, HEAD, POST, DELETE, OPTIONS"]),
        ("/pause", 404, []),
    ],
)
def test_an_options_that_is_no_preflight_is_told_what_may_be_asked(
    cors: CorsSpec | None, target: str, status: int, allow: list[str]
) -> None:
    async def go() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        async with running(engine, cors=cors) as gateway:
            for lines in ((), (f"Origin: {PAGE}",)):
                answered = await ask(gateway.port, options(*lines, target=target))
                assert (answered.status, answered.header("allow")) == (status, allow)
            assert engine.asked == []

    run(go())
