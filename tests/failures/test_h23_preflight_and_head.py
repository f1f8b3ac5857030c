"""Browser apps cannot connect: OPTIONS refused, no CORS on errors.  HEAD hangs, or shifts later answers."""

import asyncio

import pytest

from tests.failures.support import at_once, run
from tests.support import Engine, Peer, answers, ask, json_answer, running

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
            got = await ask(gateway.port, one * 2 + one[:-2] + b"Connection: close\r\n\r\n", 5)
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
            got = await ask(gateway.port, head(target) + head(target, method="GET", close=True), 5)
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
                got = await ask(gateway.port, head("/v1/x") + head("/v1/x", method="GET", close=True), 5)
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
            first, second = (await ask(gateway.port, requests, 5)).raw.split(b"HTTP/1.1 ")[1:]
            assert first.startswith(status.encode()) and first.endswith(b"\r\n\r\n")
            assert b"ransfer-" not in first and second.endswith(b'"second"')

    run(test())


def test_h23_preflight_and_head_many_heads_at_once_hang_nowhere() -> None:
    async def test() -> None:
        engine = Engine(answers(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"))
        async with running(engine) as gateway:
            asked = (ask(gateway.port, head(f"/v1/x?{n}", close=True), 5) for n in range(200))
            assert {(got.status, got.body) for got in await at_once(asked)} == {(200, b"")}
            await asyncio.sleep(0)
            assert gateway.inflight() == 0

    run(test())
