"""What a relay owes clients and engines when either is slow, leaves, or does not keep to the usual order."""

import asyncio
import socket
from typing import Any

import pytest

from gateway.processes import worker
from gateway.service import Service
from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from tests.support import (
    CHAT,
    FINISH,
    LAST,
    TOKEN,
    Engine,
    Peer,
    answers,
    ask,
    chunk,
    json_answer,
    parse,
    post,
    running,
    streams,
    until,
)
from tests.support_shared import hangs, run


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Service]:
    """The services of the workers that the test starts."""
    made: list[Service] = []

    def service(*args: Any, **more: Any) -> Service:
        made.append(Service(*args, **more))
        return made[-1]

    monkeypatch.setattr(worker, "Service", service)
    return made


def unread_client(port: int) -> socket.socket:
    """A client with small buffers that reads only when told to."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.setblocking(False)
    return client


async def sent_until_stuck(client: socket.socket, data: bytes) -> int:
    """How much of `data` is taken before nothing is taken for a while."""
    loop, sent = asyncio.get_running_loop(), 0
    try:
        while sent < len(data):
            piece = data[sent : sent + 65536]
            await asyncio.wait_for(loop.sock_sendall(client, piece), 0.7)
            sent += len(piece)
    except TimeoutError:
        pass
    return sent


def test_a_drain_that_runs_out_of_time_leaves_no_load_and_no_engine_at_work() -> None:
    async def test() -> None:
        left = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.left()
            left.set()

        engine = Engine(script)
        async with running(engine, limits=LimitsSpec(drain_s=0.1)) as gateway:
            asking = asyncio.get_running_loop().create_task(
                asyncio.open_connection("127.0.0.1", gateway.port)
            )
            _, writer = await asking
            writer.write(post())
            await until(lambda: gateway.inflight() == 1 and bool(engine.asked))
            gateway.stop.set()
            await asyncio.wait_for(left.wait(), 30)
            assert gateway.inflight() == 0
            writer.close()

    run(test())


def test_answers_that_waited_for_their_reader_go_on_in_order() -> None:
    async def test() -> None:
        async with running(Engine(answers(json_answer(b"x" * 30000)))) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            own = f"GET /refused/{'a' * 3000} HTTP/1.1\r\nHost: g\r\n\r\n".encode()
            writer.write((post(CHAT, close=False) + own) * 500 + post(CHAT))
            await asyncio.sleep(0.5)
            raw = await asyncio.wait_for(reader.read(-1), 20)
            statuses = [part[:3] for part in raw.split(b"HTTP/1.1 ")[1:]]
            assert statuses == [b"200", b"404"] * 500 + [b"200"]
            writer.close()

    run(test())


def test_an_upload_is_taken_no_faster_than_its_engine_takes_it() -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as engine:  # connections are made and never read
            url = f"http://127.0.0.1:{engine.getsockname()[1]}"
            fleets = [FleetSpec(None, (), True, (EngineSpec(0, url, kind="vllm"),), "least_load")]
            limits = LimitsSpec(read_bytes=1 << 20, drain_s=0.1)
            async with running(fleets=fleets, limits=limits) as gateway:
                client = unread_client(gateway.port)
                assert await sent_until_stuck(client, post(b"[" + b"1," * (40 << 20))) < 40 << 20
                client.close()

    run(test())


def test_a_body_that_streams_by_names_its_model_as_the_engine_does() -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        await engine.start()
        spec = EngineSpec(0, engine.url, kind="vllm", model="the-engines-own-name")
        fleets = [FleetSpec("alpha", ("alpha",), True, (spec,), "least_load")]
        body = b'{"model": "alpha", "x":"' + b"A" * (2 << 20) + b'"}'
        async with running(engine, fleets=fleets, limits=LimitsSpec(read_bytes=100_000)) as gateway:
            assert (await asyncio.wait_for(ask(gateway.port, post(body)), 30)).status == 200
        assert engine.asked[0].body == body.replace(b"alpha", b"the-engines-own-name")

    run(test())


def test_a_request_refused_for_its_size_is_counted_once(served: list[Service]) -> None:
    async def test() -> None:
        limits = LimitsSpec(read_bytes=1000, body_bytes=100_000)
        body = b"".join(chunk(b"1," * 5000) for _ in range(30)) + LAST
        head = b"POST /v1/x HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n"
        async with running(Engine(hangs), limits=limits) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            for at in range(0, len(body), 20_000):
                writer.write(head * (at == 0) + body[at : at + 20_000])
                await asyncio.sleep(0.01)
            assert parse(await reader.read()).status == 413
            writer.close()
            counted = {key[3]: n for key, n in served[0].tallies.all().items() if key[0] == "requests"}
            assert counted == {"too_large": 1} and gateway.inflight() == 0

    run(test())


def test_a_body_announced_as_too_large_reaches_no_engine() -> None:
    async def test() -> None:
        engine = Engine(hangs)
        limits = LimitsSpec(read_bytes=1000, body_bytes=100_000)
        async with running(engine, limits=limits) as gateway:
            head = b"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 200000\r\n\r\n"
            got = await asyncio.wait_for(ask(gateway.port, head + b"x" * 5000), 30)
            assert got.status == 413 and not engine.asked

    run(test())


def test_a_client_that_offers_h2c_is_served() -> None:
    async def test() -> None:
        engine = Engine(streams(TOKEN, FINISH))
        offer = "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQ"
        request = post(CHAT, "/v1/chat/completions", *offer).replace(
            b"Connection: close", b"Connection: Upgrade, HTTP2-Settings, close"
        )
        async with running(engine) as gateway:
            got = await ask(gateway.port, request)
        assert got.status == 200 and b"tok" in got.text and engine.asked[0].body == CHAT
        assert not {"upgrade", "http2-settings"} & {name.lower() for name, _ in engine.asked[0].headers}

    run(test())


def test_a_client_of_http_1_0_that_offers_h2c_gets_its_answer_unchunked_and_its_end() -> None:
    async def test() -> None:
        async with running(Engine(streams(TOKEN, FINISH))) as gateway:
            got = await ask(
                gateway.port,
                b"POST /v1/chat/completions HTTP/1.0\r\nUpgrade: h2c\r\n"
                b"Content-Length: %d\r\n\r\n" % len(CHAT) + CHAT,
            )
        assert got.status == 200 and got.body.startswith(b"data:") and got.header("connection") == ["close"]

    run(test())


def test_a_target_in_absolute_form_is_served_and_reaches_the_engine_as_a_path() -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        async with running(engine) as gateway:
            models = await ask(
                gateway.port, b"GET http://gw/v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            )
            got = await ask(gateway.port, post(path="http://gw:80/v1/chat/completions?a=b"))
            assert (models.status, got.status) == (200, 200), models.raw
            assert [peer.line for peer in engine.asked] == ["POST /v1/chat/completions?a=b HTTP/1.1"]
            assert dict(engine.asked[0].headers)["host"] == f"127.0.0.1:{engine.port}"

    run(test())
