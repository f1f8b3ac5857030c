"""WebSocket through the gateway: real clients and servers, scripted ones where those are too good."""

import asyncio
import hashlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from gateway.clients import upgrade
from gateway.spec import CorsSpec, EngineSpec, FleetSpec, LimitsSpec
from tests.gateway.whole import begin
from tests.support import (
    FINISH,
    TOKEN,
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
    streams,
    until,
)
from tests.support_shared import echo, run
from wire.handshake import Handshake
from wire.http1 import RequestHead
from wire.response import MalformedAnswer

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


@pytest.mark.parametrize("reads_late", ["client", "engine"])
def test_a_slow_end_holds_up_the_other_and_nothing_is_lost(reads_late: str) -> None:
    """50 MB towards an end that does not read: little of it is taken, and all of it comes in the end."""

    async def go() -> None:
        size = 50 << 20
        block = random.Random(6).randbytes(1 << 20)
        expected = hashlib.sha256(block * 50).hexdigest()
        released = asyncio.Event()
        sent = 0

        async def pour(writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            for _ in range(50):
                writer.write(block)
                await writer.drain()
                sent += len(block)

        async def drink(reader: asyncio.StreamReader) -> str:
            await released.wait()
            digest, left = hashlib.sha256(), size
            while left:
                piece = await reader.read(1 << 16)
                assert piece
                digest.update(piece)
                left -= len(piece)
            return digest.hexdigest()

        got: list[str] = []

        async def script(peer: Peer) -> None:
            await peer.send(AGREED)
            if reads_late == "engine":
                got.append(await drink(peer.reader))
            else:
                await pour(peer.writer)
            await peer.reader.read()

        async with running(Engine(script)) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(asking())
            await reader.readuntil(b"\r\n\r\n")
            pouring = asyncio.ensure_future(pour(writer)) if reads_late == "engine" else None  # noqa: TID251
            before = -1
            while sent != before:  # until nothing more is taken
                before = sent
                await asyncio.sleep(0.3)
            assert sent < 30 << 20, "the gateway took it all"
            released.set()
            if pouring is None:
                got.append(await drink(reader))
            else:
                await asyncio.wait_for(pouring, 30)
                await until(lambda: bool(got), 30)
            assert got == [expected]
            writer.close()
            await until(lambda: gateway.inflight() == 0)

    run(go())


def test_an_end_that_takes_nothing_for_too_long_is_given_up_and_the_other_with_it() -> None:
    async def go() -> None:
        left = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(AGREED)
            try:
                while True:
                    peer.writer.write(b"x" * (1 << 20))
                    await peer.writer.drain()
            except ConnectionError:
                left.set()

        async with running(Engine(script), limits=LimitsSpec(idle_timeout_s=0.5, drain_s=1.0)) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1 << 12)
            writer.write(asking())
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.wait_for(left.wait(), 20)
            await until(lambda: gateway.inflight() == 0)
            writer.transport.abort()

    run(go())


def test_a_client_that_leaves_while_the_engine_thinks_frees_everything() -> None:
    async def go() -> None:
        left = asyncio.Event()

        async def script(peer: Peer) -> None:
            if await peer.left():
                left.set()

        engine = Engine(script)
        async with running(engine) as gateway:
            for abrupt in (False, True):
                left.clear()
                _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                writer.write(asking())
                await until(lambda: gateway.inflight() == 1)
                while len(engine.asked) <= abrupt:
                    await asyncio.sleep(0.01)
                writer.transport.abort() if abrupt else writer.close()
                await asyncio.wait_for(left.wait(), 30)
                await until(lambda: gateway.inflight() == 0)

    run(go())


def test_an_engine_that_is_not_there_is_passed_over_and_with_none_left_that_is_said() -> None:
    async def go() -> None:
        gone, there = Engine(answers(b"")), Engine(answers(AGREED))
        await gone.start()
        await gone.stop()
        await there.start()
        specs = (EngineSpec(0, gone.url, kind="vllm"), EngineSpec(1, there.url, kind="vllm"))
        for engines, status in ((specs, 101), (specs[:1], 503)):
            fleets = (FleetSpec(None, (), True, engines, "least_load"),)
            async with running(there, fleets=fleets) as gateway:
                for _ in range(4):
                    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                    writer.write(asking())
                    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
                    assert head.startswith(b"HTTP/1.1 %d " % status), head
                    assert status == 101 or b"Retry-After: " in head
                    writer.close()
                await until(lambda: gateway.inflight(0) == 0)
            await there.start()
        await there.stop()

    run(go())


def test_an_engine_that_never_answers_is_a_504() -> None:
    async def go() -> None:
        async def script(peer: Peer) -> None:
            await peer.left()

        cors = CorsSpec(("https://a.example",))
        limits = LimitsSpec(first_token_timeout_s=0.3, drain_s=1.0)
        async with running(Engine(script), limits=limits, cors=cors) as gateway:
            answered = await ask(gateway.port, asking("/v1/realtime", "Origin: https://a.example"))
            assert answered.status == 504 and gateway.inflight() == 0
            assert answered.header("access-control-allow-origin") == ["https://a.example"]

    run(go())


def test_a_stop_waits_for_tunnels_and_then_ends_them() -> None:
    async def go() -> None:
        limits = LimitsSpec(drain_s=1.5)
        async with (
            in_front_of(echo, limits=limits) as (gateway, _),
            to(gateway) as short,
            to(gateway) as long,
        ):
            gateway.stop.set()
            await short.send("a")
            assert await asyncio.wait_for(short.recv(), 30) == "a"
            await short.close()
            await long.send("b")
            assert await asyncio.wait_for(long.recv(), 30) == "b"
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(long.recv(), 30)
            assert long.close_code == 1006  # the library's word for an end without a close frame

    run(go())


def test_a_tunnel_whose_engine_is_taken_out_has_a_bounded_time() -> None:
    async def silent(peer: Peer) -> None:
        await peer.left()

    async def go() -> None:
        other = Engine(streams(TOKEN, FINISH))
        async with AsyncExitStack() as stack:
            await begin(stack, other)
            moved = (FleetSpec(None, (), True, (EngineSpec(1, other.url, kind="vllm"),), "least_load"),)
            limits = LimitsSpec(drain_s=2.0, leaving_s=0.5)
            async with in_front_of(echo, limits=limits) as (gateway, _), to(gateway) as tunnel:
                assert await gateway.renew(fleets=moved) is None
                await tunnel.send("a")
                assert await asyncio.wait_for(tunnel.recv(), 30) == "a"
                with pytest.raises(ConnectionClosed):
                    await asyncio.wait_for(tunnel.recv(), 30)
                assert tunnel.close_code == 1006
                await until(lambda: gateway.inflight(0) == 0)
            async with running(Engine(silent), limits=limits) as gateway:
                reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                writer.write(asking())
                await until(lambda: gateway.inflight(0) == 1)
                assert await gateway.renew(fleets=moved) is None
                answer = await asyncio.wait_for(reader.read(), 30)
                assert answer.startswith(b"HTTP/1.1 503 ") and b"taken out" in answer
                await until(lambda: gateway.inflight(0) == 0)
                writer.close()

    run(go())


def test_many_tunnels_at_once_and_one_after_the_other() -> None:
    async def go() -> None:
        async def one(gateway: Gateway, n: int) -> None:
            async with to(gateway) as client:
                for at in range(5):
                    await client.send(f"{n} {at}")
                    assert await client.recv() == f"{n} {at}"

        async with in_front_of(echo) as (gateway, _):
            for _ in range(3):
                await asyncio.gather(*(one(gateway, n) for n in range(40)))
                await until(lambda: gateway.inflight() == 0)

    run(go())


def test_an_engine_behind_a_real_clients_error_is_told_as_it_is() -> None:
    async def go() -> None:
        async with running(Engine(answers(json_answer(b'{"error":{}}', "401 Unauthorized")))) as gateway:
            with pytest.raises(InvalidStatus) as refused:
                async with to(gateway):
                    pass
            assert refused.value.response.status_code == 401

    run(go())


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_no_bytes_crash_the_handshake_and_cuts_do_not_matter(data: bytes, cuts: list[int]) -> None:
    for start in (b"", b"HTTP/1.1 101 S\r\n", AGREED[:-2], b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 "):
        assert shaken(start + data, cuts) == shaken(start + data, range(1, len(start + data)))


def shaken(data: bytes, cuts: Any) -> Any:
    handshake = Handshake()
    places = [0, *sorted(cut for cut in cuts if 0 < cut < len(data)), len(data)]
    try:
        for at, (start, end) in enumerate(pairwise(places)):
            handshake.feed(data[start:end])
            if handshake.switched is not None:
                return handshake.switched, handshake.rest + data[places[at + 1] :]
            if handshake.complete:
                return handshake.refused, handshake.body
    except MalformedAnswer:
        return "malformed"
    handshake.eof()
    return handshake.refused, handshake.body, handshake.complete


def test_a_key_among_subprotocols_is_taken_out_and_only_that() -> None:
    offers = [
        (b"Sec-WebSocket-Protocol", b"openai-insecure-api-key.a"),
        (b"sec-websocket-protocol", b"b , c"),
    ]
    names = [name.lower() for name, _ in offers]
    head = RequestHead(b"GET", b"/", offers, names, "1.1", True, None, False, True)
    assert upgrade.without_key(head).headers == [(b"sec-websocket-protocol", b"b, c")]
