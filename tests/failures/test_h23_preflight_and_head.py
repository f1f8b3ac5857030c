"""Browser apps cannot connect: OPTIONS refused, no CORS on errors.  HEAD hangs, or shifts later answers."""

import pytest

from gateway.spec import CorsSpec, LimitsSpec
from tests.failures.support import at_once
from tests.support import (
    CHAT,
    FINISH,
    LAST,
    SSE_HEAD,
    TOKEN,
    Engine,
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

STATUSES = ("200 OK", "204 No Content", "304 Not Modified", "400 Bad Request", "404 Not Found", "500 Oops")


def head(target: str, *extra: str, method: str = "HEAD", close: bool = False) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: g", *extra, *(["Connection: close"] if close else [])]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


@pytest.mark.parametrize("framing", ["Content-Length: 1234", "Transfer-Encoding: chunked", "X-None: 1"])
@pytest.mark.parametrize("status", STATUSES)
def test_h23_preflight_and_head_head_has_no_body_whatever_it_says_of_one(status: str, framing: str) -> None:
    """The next answers on the client's connection, and on the engine's, are where they belong."""

    async def test() -> None:
        async def script(peer: Peer) -> None:
            if peer.line.startswith("HEAD"):
                await peer.send(f"HTTP/1.1 {status}\r\n{framing}\r\n\r\n".encode())
            else:
                await peer.send(json_answer(b'"of GET"'))

        engine = Engine(script)
        async with running(engine) as gateway:
            one = head("/v1/x") + head("/v1/x", method="GET")
            got = await ask(gateway.port, one * 2 + one[:-2] + b"Connection: close\r\n\r\n", 30)
            answers = got.raw.split(b"HTTP/1.1 ")[1:]
            assert len(answers) == 6
            for of_head, of_get in zip(answers[::2], answers[1::2], strict=True):
                assert of_head.startswith(status.encode()) and of_head.endswith(b"\r\n\r\n")
                assert of_get.startswith(b"200 OK") and of_get.endswith(b'\r\n\r\n"of GET"')
                if framing.startswith("Content-Length") and not status.startswith("204"):
                    assert b"1234" in of_head  # what a GET's would be
            assert gateway.inflight() == 0

    run(test())


@pytest.mark.parametrize("target", ["/health", "/v1/models", "/refused", "/v1/../x"])
def test_h23_preflight_and_head_head_of_the_gateways_own_answers_has_none_either(target: str) -> None:
    async def test() -> None:
        async with running(Engine(answers(json_answer(b"{}")))) as gateway:
            got = await ask(gateway.port, head(target) + head(target, method="GET", close=True), 30)
            of_head, of_get = got.raw.split(b"HTTP/1.1 ")[1:]
            assert of_head.endswith(b"\r\n\r\n") and not of_get.endswith(b"\r\n\r\n")
            length = [line for line in of_get.split(b"\r\n") if line.startswith(b"Content-Length")]
            assert length[0] in of_head

    run(test())


def test_h23_preflight_and_head_an_engine_that_sends_a_body_to_head_shifts_no_answer() -> None:
    """Its surplus is thrown away with its connection, and is nobody's answer."""

    async def test() -> None:
        async def script(peer: Peer) -> None:
            await peer.send(json_answer(b'"of HEAD"' if peer.line.startswith("HEAD") else b'"of GET"'))

        async with running(Engine(script)) as gateway:
            for _ in range(5):
                got = await ask(gateway.port, head("/v1/x") + head("/v1/x", method="GET", close=True), 30)
                assert got.raw.count(b"of GET") == 1 and b"of HEAD" not in got.raw

    run(test())


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_h23_preflight_and_head_answers_without_a_body_by_status_end_with_their_head(status: str) -> None:
    async def test() -> None:
        async def script(peer: Peer) -> None:
            if "first" in peer.line:
                await peer.send(f"HTTP/1.1 {status}\r\nETag: a\r\n\r\n".encode())
            else:
                await peer.send(json_answer(b'"second"'))

        async with running(Engine(script)) as gateway:
            requests = head("/v1/first", method="GET") + head("/v1/second", method="GET", close=True)
            first, second = (await ask(gateway.port, requests, 30)).raw.split(b"HTTP/1.1 ")[1:]
            assert first.startswith(status.encode()) and first.endswith(b"\r\n\r\n")
            assert b"ransfer-" not in first and second.endswith(b'"second"')

    run(test())


def test_h23_preflight_and_head_many_heads_at_once_hang_nowhere() -> None:
    async def test() -> None:
        engine = Engine(answers(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"))
        async with running(engine) as gateway:
            asked = (ask(gateway.port, head(f"/v1/x?{n}", close=True)) for n in range(200))
            assert {(got.status, got.body) for got in await at_once(asked)} == {(200, b"")}
            await until(lambda: gateway.inflight() == 0)

    run(test())


# Browsers

PAGE = "https://app.example"
RULES = CorsSpec((PAGE,))
PREFLIGHT = (
    f"Origin: {PAGE}",
    "Access-Control-Request-Method: POST",
    "Access-Control-Request-Headers: authorization,content-type,x-title",
)
OWN_WORD = ("Access-Control-Allow-Origin: *", "access-control-allow-origin: https://other.example")


@pytest.mark.parametrize(
    "target", ["/v1/chat/completions", "/v1/models", "/v1/made/up", "/health", "/generate", "/v1/x?a=%2F"]
)
def test_h23_preflight_and_head_a_genuine_preflight_passes_without_credentials(target: str) -> None:
    """On every path: browsers send none with it; and it is no business of an engine."""

    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}", "405 Method Not Allowed")))
        async with running(engine, cors=RULES) as gateway:
            got = await ask(gateway.port, head(target, *PREFLIGHT, method="OPTIONS", close=True), 30)
            assert got.status in (200, 204) and got.is_whole
            assert got.header("access-control-allow-origin") == [PAGE]
            assert "POST" in got.header("access-control-allow-methods")[0]
            allowed = got.header("access-control-allow-headers")[0].lower().replace(" ", "").split(",")
            assert "*" in allowed or {"authorization", "content-type", "x-title"} <= set(allowed)
        assert not engine.asked

    run(test())


async def cut(peer: Peer) -> None:
    await peer.send(SSE_HEAD, event(TOKEN))
    peer.reset()


REFUSING = [
    answers(json_answer(b"{}", f"{status} S", *own))
    for status in (200, 400, 401, 404, 422, 429, 500, 503)
    for own in ((), OWN_WORD)
]
SAYING = [
    *REFUSING,
    streams(TOKEN, FINISH),
    answers(SSE_HEAD.replace(b"\r\n\r\n", b"\r\nAccess-Control-Allow-Origin: *\r\n\r\n"), event(TOKEN), LAST),
    answers(b"not HTTP\r\n\r\n"),
    cut,
]


def test_h23_preflight_and_head_every_answer_names_the_page_that_may_read_it_once() -> None:
    """Of every status, in streams from the head on, from engines that name others, and the gateway's own."""

    async def test() -> None:
        async def script(peer: Peer) -> None:
            await SAYING[int(peer.line.split("?")[1].split()[0])](peer)

        origin = f"Origin: {PAGE}"
        async with running(Engine(script), cors=RULES, limits=LimitsSpec(body_bytes=50_000)) as gateway:
            path = "/v1/chat/completions"
            asked = [post(CHAT, f"{path}?{n}", origin) for n in range(len(SAYING))]
            asked.append(post(b"{bad", f"{path}?0", origin))
            asked.append(post(b"x" * 60_000, f"{path}?0", origin))
            asked.append(post(CHAT, "/refused", origin))
            asked += [head(target, origin, method="GET", close=True) for target in ("/health", "/v1/models")]
            for n, got in enumerate(await at_once(ask(gateway.port, one) for one in asked)):
                assert got.header("access-control-allow-origin") == [PAGE], (n, got.raw[:300])
                assert [value.lower() for value in got.header("vary")].count("origin") == 1

    run(test())


def test_h23_preflight_and_head_a_page_not_named_may_not_read() -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}", "200 OK", *OWN_WORD)))
        async with running(engine, cors=RULES) as gateway:
            for origin in (
                "https://evil.example",
                "null",
                PAGE + ".evil.example",
                PAGE.upper(),
                "http://app.example",
            ):
                for extra in (PREFLIGHT[1:], ()):
                    method = "OPTIONS" if extra else "GET"
                    request = head("/v1/x", f"Origin: {origin}", *extra, method=method, close=True)
                    got = await ask(gateway.port, request, 30)
                    assert PAGE not in got.header("access-control-allow-origin")
                    assert not {"*", origin} & set(got.header("access-control-allow-origin"))

    run(test())
