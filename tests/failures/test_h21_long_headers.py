"""Big tokens, many cookies, long addresses: a 400 for who has them, a 502 when the engine sends them."""

import asyncio
import json
import socket

import pytest

from gateway.spec import LimitsSpec
from tests.failures.support import NOT_STREAMED, at_once
from tests.support import Answered, Engine, Peer, answers, ask, json_answer, parse, post, running
from tests.support_shared import run

PATH = "/v1/chat/completions"
SIZES = (4_000, 8_190, 8_191, 8_192, 9_000, 12_000, 16_384, 16_385, 32_768, 50_000, 60_000)
LIMIT = 64 << 10


def refused(got: Answered, *statuses: int) -> bool:
    """Refused by the gateway, in words and in OpenAI's shape, on a connection that then closes."""
    error = json.loads(got.body)["error"]
    return got.status in statuses and bool(error["message"]) and error["type"] == "invalid_request_error"


def fields(size: int) -> list[list[str]]:
    """Heads with about `size` bytes of fields: one long, one name often, many names, one long name."""
    return [
        ["Authorization: Bearer " + "a" * size],
        [f"Cookie: c{n}={'b' * 400}" for n in range(size // 420)],
        [f"X-{n}: {'c' * 90}" for n in range(size // 100)],
        [f"X-{'d' * size}: 1"],
    ]


def test_h21_long_headers_of_clients_reach_the_engine_whole() -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        heads = [(size, n) for size in SIZES for n in range(4)]

        async def one(size: int, n: int) -> None:
            sent = fields(size)[n]
            got = await ask(gateway.port, post(NOT_STREAMED, f"{PATH}?{size}-{n}", *sent))
            assert got.status == 200, (size, n)
            (peer,) = [peer for peer in engine.asked if f"?{size}-{n} " in peer.line]
            seen = [f"{name}: {value}" for name, value in peer.headers]
            assert [line for line in seen if line in set(sent)] == sent
            assert peer.body == NOT_STREAMED

        async with running(engine) as gateway:
            await at_once(one(*head) for head in heads)

    run(test())


def test_h21_long_headers_cut_into_many_reads_reach_the_engine_whole() -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))

        async def one(step: int) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            request = post(NOT_STREAMED, f"{PATH}?step={step}", "X-Big: " + "a" * 20_000)
            for at in range(0, len(request), step):
                writer.write(request[at : at + step])
                await asyncio.sleep(0)
            assert parse(await asyncio.wait_for(reader.read(), 20)).status == 200
            writer.close()

        async with running(engine) as gateway:
            await at_once(one(step) for step in (97, 1_000, 4_095, 8_192, 16_000))
        assert {dict(peer.headers)["X-Big"] for peer in engine.asked} == {"a" * 20_000}
        assert len(engine.asked) == 5

    run(test())


def test_h21_long_request_lines_reach_the_engine_byte_for_byte() -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        targets = [f"/v1/files?after={'q' * size}" for size in SIZES]
        targets += [f"/v1/models/{'m' * size}" for size in SIZES]

        async def one(target: str) -> int:
            request = f"GET {target} HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n"
            return (await ask(gateway.port, request.encode())).status

        async with running(engine) as gateway:
            assert await at_once(one(target) for target in targets) == [200] * len(targets)
        assert {peer.line for peer in engine.asked} == {f"GET {target} HTTP/1.1" for target in targets}

    run(test())


def test_h21_long_headers_of_engines_reach_the_client_whole() -> None:
    """A redirect's long address, many cookies, long debugging fields; whole, and cut into reads."""

    async def test() -> None:
        cases = [(size, n, step) for size in SIZES for n in range(4) for step in (0, 1_460)]

        async def script(peer: Peer) -> None:
            size, n, step = map(int, peer.line.split("?")[1].split()[0].split("-"))
            status = "302 Found" if n == 0 else "200 OK"
            extra = [f"Location: https://else.example/?{'u' * size}"] if n == 0 else fields(size)[n]
            answer = json_answer(b'{"a":1}', status, *extra)
            for at in range(0, len(answer), step or len(answer)):
                await peer.send(answer[at : at + (step or len(answer))])
                await asyncio.sleep(0)

        async def one(size: int, n: int, step: int) -> None:
            got = await ask(gateway.port, post(NOT_STREAMED, f"{PATH}?{size}-{n}-{step}"))
            assert (got.status, got.body) == (302 if n == 0 else 200, b'{"a":1}'), (size, n, step)
            if n == 0:
                assert got.header("location") == [f"https://else.example/?{'u' * size}"]
            else:
                wanted = fields(size)[n]
                assert [f"{k}: {v}" for k, v in got.headers if f"{k}: {v}" in set(wanted)] == wanted

        async with running(Engine(script)) as gateway:
            await at_once(one(*case) for case in cases)

    run(test())


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "without an end"])
def test_h21_long_headers_beyond_the_limit_are_refused_in_words_and_not_by_a_lost_connection(
    whole: bool,
) -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        end = b"\r\n\r\n" if whole else b""
        start = b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 0\r\n"
        heads = {
            "one field": start + b"X: " + b"a" * 70_000 + end,
            "one long name": start + b"X" * 70_000 + (b": 1" if whole else b"") + end,
            "many fields": start + b"\r\n".join(b"X-%d: %s" % (n, b"b" * 90) for n in range(800)) + end,
            "the address": b"GET /v1/x?" + b"c" * 70_000 + (b" HTTP/1.1\r\nHost: g" if whole else b"") + end,
            "far beyond": start + b"X: " + b"a" * 2_000_000 + end,
        }

        async with running(engine) as gateway:
            for name, got in zip(
                heads, await at_once(ask(gateway.port, head) for head in heads.values()), strict=True
            ):
                assert refused(got, 431, 414), name
                assert got.header("connection") == ["close"]
            assert (await ask(gateway.port, post(NOT_STREAMED))).status == 200
        assert len(engine.asked) == 1

    run(test())


def test_h21_long_headers_of_an_engine_beyond_the_limit_are_a_502_in_words() -> None:
    async def test() -> None:
        async def script(peer: Peer) -> None:
            match int(peer.line.split("?")[1].split()[0]):
                case 0:
                    await peer.send(json_answer(b"{}", "200 OK", "X: " + "a" * 80_000))
                case 1:
                    await peer.send(json_answer(b"{}", "200 OK", *[f"X-{n}: {'b' * 90}" for n in range(900)]))
                case 2:
                    await peer.send(b"HTTP/1.1 200 OK\r\nX: ", *[b"c" * 65_536] * 4)
                    await peer.left()
                case _:
                    await peer.send(json_answer(b"{}"))

        async with running(Engine(script)) as gateway:
            for n in range(3):
                got = await ask(gateway.port, post(NOT_STREAMED, f"{PATH}?{n}"))
                assert got.status == 502 and b"upstream_malformed" in got.body, n
            assert (await ask(gateway.port, post(NOT_STREAMED, f"{PATH}?9"))).status == 200
            assert gateway.inflight() == 0

    run(test())


@pytest.mark.parametrize("limit", [1_024, 16_000, 200_000])
def test_h21_long_headers_have_the_limit_that_is_configured(limit: int) -> None:
    """Just below it, both ways, they pass; just above it they are refused, both ways."""

    async def test() -> None:
        async def script(peer: Peer) -> None:
            if "?back" in peer.line:
                size = int(peer.line.split("=")[1].split()[0])
                await peer.send(json_answer(b"{}", "200 OK", "X: " + "b" * size))
            else:
                await peer.send(json_answer(b"{}"))

        async with running(Engine(script), limits=LimitsSpec(head_bytes=limit)) as gateway:
            base = len(post(b"{}", PATH, "X: ")) - 2
            fits = await ask(gateway.port, post(b"{}", PATH, "X: " + "a" * (limit - base - 50)))
            above = await ask(gateway.port, post(b"{}", PATH, "X: " + "a" * limit))
            assert fits.status == 200 and refused(above, 431, 414)
            back = await ask(gateway.port, post(b"{}", f"{PATH}?back={limit - 300}"))
            beyond = await ask(gateway.port, post(b"{}", f"{PATH}?back={limit}"))
            assert (back.status, beyond.status) == (200, 502)

    run(test())


def test_h21_long_headers_are_heard_out_so_that_no_reset_outruns_the_refusal() -> None:
    """A client still writing when it is refused must not lose the answer to a reset (RFC 9112 9.6)."""

    async def test() -> None:
        async with running(Engine(answers(json_answer(b"{}")))) as gateway:
            loop = asyncio.get_running_loop()
            with socket.socket() as client:
                client.setblocking(False)
                await loop.sock_connect(client, ("127.0.0.1", gateway.port))
                start = b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nX: "
                await asyncio.wait_for(loop.sock_sendall(client, start + b"a" * (30 << 20)), 20)
                raw = b""
                while piece := await asyncio.wait_for(loop.sock_recv(client, 65_536), 20):
                    raw += piece
            assert refused(parse(raw), 431)

    run(test())
