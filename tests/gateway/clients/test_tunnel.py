"""WebSocket through the gateway: real clients and servers, scripted ones where those are too good."""

import asyncio
import hashlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from tests.support import (
    Answered,
    Engine,
    Gateway,
    Peer,
    answers,
    ask,
    json_answer,
    parse,
    post,
    running,
    until,
)
from tests.support_shared import echo, run

AGREED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)
Handler = Callable[[ServerConnection], Awaitable[None]]


def asking(
    target: str = "/v1/realtime?model=m", *extra: str, method: str = "GET", version: str = "1.1"
) -> bytes:
    lines = [
        f"{method} {target} HTTP/{version}",
        "Host: g",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        *extra,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


@asynccontextmanager
async def in_front_of(handler: Handler, **more: Any) -> AsyncIterator[tuple[Gateway, list[ServerConnection]]]:
    """A gateway before a real WebSocket server; the server's connections."""
    seen: list[ServerConnection] = []

    async def handled(connection: ServerConnection) -> None:
        seen.append(connection)
        await handler(connection)

    limits = more.pop("limits", LimitsSpec(drain_s=2.0))
    overrides = {name: more.pop(name) for name in ("trusted_proxies",) if name in more}
    async with serve(handled, "127.0.0.1", 0, max_size=None, ping_interval=None, **more) as server:
        spec = EngineSpec(0, f"http://127.0.0.1:{port_of(server)}", kind="vllm")
        fleets = (FleetSpec(None, (), True, (spec,), "least_load"),)
        async with running(fleets=fleets, limits=limits, **overrides) as gateway:
            yield gateway, seen


def port_of(server: Server) -> int:
    return int(next(iter(server.sockets)).getsockname()[1])


def to(gateway: Gateway, target: str = "/v1/realtime?model=m", **more: Any) -> connect:
    url = f"ws://127.0.0.1:{gateway.port}{target}"
    return connect(url, max_size=None, ping_interval=None, proxy=None, **more)


@pytest.mark.parametrize("compression", ["deflate", None])
def test_messages_of_every_size_pass_both_ways(compression: str | None) -> None:
    async def go() -> None:
        rng = random.Random(3)
        messages: list[str | bytes] = [
            "",
            "é🙂" * 100,
            b"",
            *(rng.randbytes(n) for n in (1, 125, 126, 65_535, 65_536, 3_000_000)),
        ]
        async with in_front_of(echo, compression=compression) as (gateway, _):
            async with to(gateway, compression=compression) as client:
                assert gateway.inflight() == 1
                for message in messages:
                    await client.send(message)
                    assert await client.recv() == message
                await asyncio.wait_for(await client.ping(), 30)
            await until(lambda: gateway.inflight() == 0)

    run(go())


def test_the_chosen_subprotocol_reaches_the_client_and_the_offers_the_engine() -> None:
    async def go() -> None:
        offers = [Subprotocol("openai-insecure-api-key.x"), Subprotocol("realtime")]
        async with in_front_of(echo, subprotocols=[Subprotocol("realtime")]) as (gateway, seen):
            async with to(
                gateway, "/v1/realtime?model=m&a=%2F", subprotocols=offers, origin="https://a.example"
            ) as client:
                assert client.subprotocol == "realtime"
            request = seen[0].request
            assert request is not None and request.path == "/v1/realtime?model=m&a=%2F"
            assert request.headers["Sec-WebSocket-Protocol"] == "openai-insecure-api-key.x, realtime"
            assert request.headers["Origin"] == "https://a.example"
            assert request.headers["X-Forwarded-For"] == "127.0.0.1"
            assert request.headers.get_all("Connection") == ["Upgrade"]

    run(go())


@pytest.mark.parametrize("code", [1000, 1001, 1008, 1011, 3000, 4999])
@pytest.mark.parametrize("who", ["client", "engine"])
def test_close_codes_and_reasons_pass_untouched(code: int, who: str) -> None:
    async def go() -> None:
        told: asyncio.Future[tuple[int | None, str | None]] = asyncio.get_running_loop().create_future()

        async def handler(connection: ServerConnection) -> None:
            if who == "engine":
                await connection.close(code, "because")
            else:
                with pytest.raises(ConnectionClosed):
                    await asyncio.wait_for(anext(aiter_of(connection)), 30)
                told.set_result((connection.close_code, connection.close_reason))

        async with in_front_of(handler) as (gateway, _):
            async with to(gateway) as client:
                if who == "client":
                    await client.close(code, "because")
                    assert await asyncio.wait_for(told, 30) == (code, "because")
                else:
                    with pytest.raises(ConnectionClosed):
                        await asyncio.wait_for(client.recv(), 30)
                    assert (client.close_code, client.close_reason) == (code, "because")
            await until(lambda: gateway.inflight() == 0)

    run(go())


def aiter_of(connection: ServerConnection) -> AsyncIterator[Any]:
    async def received() -> AsyncIterator[Any]:
        while True:
            yield await connection.recv()

    return received()


def test_silence_is_the_ends_own_business() -> None:
    """No frame for longer than any limit on silence, and still open."""

    async def go() -> None:
        limits = LimitsSpec(idle_timeout_s=0.2, first_token_timeout_s=0.5, keep_alive_s=0.2, drain_s=1.0)
        async with in_front_of(echo, limits=limits) as (gateway, _), to(gateway) as client:
            await asyncio.sleep(2.5)  # more than two rounds of the sweep
            await client.send("still here")
            assert await asyncio.wait_for(client.recv(), 30) == "still here"

    run(go())


def two(a: str, b: str, **more: Any) -> tuple[FleetSpec, ...]:
    return (
        FleetSpec("a", ("a",), True, (EngineSpec(0, a, kind="vllm"),), "least_load"),
        FleetSpec("b", ("b",), False, (EngineSpec(1, b, kind="vllm", **more),), "least_load"),
    )


@pytest.mark.parametrize(
    ("target", "asked", "model"),
    [
        ("/v1/realtime", "a", None),
        ("/v1/realtime?model=b", "b", None),
        ("/v1/realtime?x=1&model=b&y=%20", "b", None),
        ("/v1/realtime?x=1&model=b&y=%20", "b", "org/own name"),
        ("/v1/realtime?model=a&mode%6c=b", "b", "own"),
    ],
)
def test_the_query_names_the_fleet_and_the_engine_hears_its_own_name(
    target: str, asked: str, model: str | None
) -> None:
    async def go() -> None:
        a, b = Engine(answers(AGREED)), Engine(answers(AGREED))
        await a.start()
        await b.start()
        async with running(a, b, fleets=two(a.url, b.url, model=model, api_key="engine-key")) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            key = "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.user-key"
            writer.write(asking(target, key, "Authorization: Bearer user-key"))
            await reader.readuntil(b"\r\n\r\n")
            taken = a if asked == "a" else b
            assert [len(a.asked), len(b.asked)] == [asked == "a", asked == "b"]
            line, said = taken.asked[0].line, dict(taken.asked[0].headers)
            if asked == "b":
                assert "user-key" not in str(said) and said["authorization"] == "Bearer engine-key"
                assert said["Sec-WebSocket-Protocol"] == "realtime"
            else:
                assert said["Authorization"] == "Bearer user-key"
            assert ("model=a" in line or "model=b" in line) == (model is None and "model" in target)
            if model == "org/own name":
                assert line == "GET /v1/realtime?x=1&model=org%2Fown+name&y=%20 HTTP/1.1"
            writer.close()
            await until(lambda: gateway.inflight(0) == gateway.inflight(1) == 0)

    run(go())


REFUSED: dict[str, tuple[bytes, int]] = {
    "a model nobody serves": (asking("/v1/realtime?model=c"), 404),
    "another path": (asking("/v1/chat/completions"), 501),
    "an administrative path": (asking("/pause"), 501),
    "a path round about": (asking("/v1/x/../realtime"), 501),
    "another protocol": (asking().replace(b"websocket", b"tls/1.2"), 501),
    "two protocols": (asking().replace(b"websocket", b"websocket, h2c"), 501),
    "a tunnel to anywhere": (b"CONNECT /v1/realtime HTTP/1.1\r\nHost: g\r\nUpgrade: websocket\r\n\r\n", 501),
    "POST": (asking(method="POST"), 400),
    "a body": (asking("/v1/realtime", "Content-Length: 5") + b"hello", 400),
    "a body in chunks": (asking("/v1/realtime", "Transfer-Encoding: chunked") + b"0\r\n\r\n", 400),
    "no key": (asking().replace(b"Sec-WebSocket-Key", b"X-Key"), 400),
    "no version": (asking().replace(b"Sec-WebSocket-Version", b"X-Version"), 400),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_relayed_is_refused_in_openais_words(name: str) -> None:
    async def go() -> None:
        a, b = Engine(answers(AGREED)), Engine(answers(AGREED))
        await a.start()
        await b.start()
        request, status = REFUSED[name]
        async with running(a, b, fleets=two(a.url, b.url)) as gateway:
            answered = await ask(gateway.port, request)
            assert answered.status == status and answered.is_whole, answered.raw
            error = json.loads(answered.body)["error"]
            assert error["message"] and error["type"]
            assert a.asked == b.asked == [] and gateway.inflight(0) == gateway.inflight(1) == 0

    run(go())


HIDDEN = 3 * b"GET /v1/hidden HTTP/1.1\r\nHost: g\r\n\r\n"


async def exchanged(
    gateway: Gateway, engine: Engine, request: bytes, written: asyncio.Event, *, at_once: bool
) -> Answered:
    """Ask, and write on before the engine has answered, as one who does not wait for its word."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        writer.write(request + (HIDDEN if at_once else b""))
        await until(lambda: bool(engine.asked))
        writer.write(HIDDEN)
        await asyncio.sleep(0.1)
        written.set()
        raw = await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()
    return parse(raw)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (json_answer(b'{"error":{"message":"no"}}', "403 Forbidden", "X-Why: 1"), 403),
        (b"HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 13\r\nContent-Length: 0\r\n\r\n", 426),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 200),
        (b"HTTP/1.1 101 Switching Protocols\r\nContent-Length: 2\r\n\r\n{}", 502),
        (b"HTTP/1.0 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", 502),
        (b"garbage\r\n\r\n", 502),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\n", 502),
        (b"", 502),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_without_the_engines_agreement_it_gets_no_byte_of_the_clients(
    answer: bytes, status: int, at_once: bool
) -> None:
    """What a client writes after a handshake that came to nothing would be requests nobody looked at."""

    async def go() -> None:
        after = b""
        written = asyncio.Event()

        async def script(peer: Peer) -> None:
            nonlocal after
            await written.wait()
            await peer.send(answer)
            if not answer or b"Content-Length: 5" in answer:
                peer.close()
                return
            try:
                after += await asyncio.wait_for(peer.reader.read(), 30)
            except ConnectionError:
                pass

        engine = Engine(script)
        async with running(engine) as gateway:
            answered = await exchanged(gateway, engine, asking(), written, at_once=at_once)
            assert answered.status == status, answered.raw
            assert answered.is_whole and answered.header("connection") == ["close"]
            if status == 403:
                assert answered.header("x-why") == ["1"] and b'"no"' in answered.text
            await until(lambda: gateway.inflight() == 0)
        assert after == b"" and [peer.line.split()[1] for peer in engine.asked] == ["/v1/realtime?model=m"]

    run(go())


@pytest.mark.parametrize("with_head", [0, 1, 5, 100_000, 300_000])
@pytest.mark.parametrize("waits", [False, True], ids=["", "behind another request"])
def test_what_is_said_before_the_engine_agrees_is_kept_for_when_it_does(with_head: int, waits: bool) -> None:
    """Also what came with the handshake itself, and before its turn has come."""

    async def go() -> None:
        said = random.Random(5).randbytes(300_000)

        async def script(peer: Peer) -> None:
            await asyncio.sleep(0.2)
            if "realtime" not in peer.line:
                await peer.send(json_answer(b"{}"))
                return
            await peer.send(b"HTTP/1.1 100 Continue\r\n\r\n", AGREED + b"first")
            got = await asyncio.wait_for(peer.reader.readexactly(len(said)), 30)
            await peer.send(hashlib.sha256(got).digest())
            peer.close()

        async with running(Engine(script)) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write((post(b"{}", close=False) if waits else b"") + asking() + said[:with_head])
            await asyncio.sleep(0.05)
            writer.write(said[with_head:])
            if waits:
                assert (await reader.readuntil(b"\r\n\r\n{}")).startswith(b"HTTP/1.1 200 ")
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            assert head.startswith(b"HTTP/1.1 101 ")
            rest = await asyncio.wait_for(reader.read(), 30)
            assert rest == b"first" + hashlib.sha256(said).digest()
            writer.close()

    run(go())
