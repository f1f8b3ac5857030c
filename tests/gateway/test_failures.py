"""Failures known from public trackers (H01-H40), over real sockets: the relay's side of each."""

import asyncio

import pytest

from gateway.spec import EngineSpec, FleetSpec
from tests.support import (
    CHAT,
    FINISH,
    LAST,
    TOKEN,
    Answered,
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
)
from tests.support_shared import run

NOT_STREAMED = CHAT.replace(b"true", b"false")


async def through(engine: Engine, request: bytes = b"") -> Answered:
    async with running(engine) as gateway:
        return await ask(gateway.port, request or post())


@pytest.mark.parametrize(
    "target",
    [
        "/pause",
        "/v1/../pause",
        "/v1/%2e%2e/pause",
        "/v1/..;/pause",
        "/v1\\..\\pause",
        "/update_weights_from_disk",
        "/flush_cache",
        "/v1/load_lora_adapter",
        "/v1/..%2fpause",
        "/%66lush_cache",
        "/metrics",
        "http://engine/pause",
    ],
)
def test_administrative_paths_are_refused_however_they_are_spelled(target: str) -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        got = await through(engine, post(b"{}", target))
        assert got.status == 404 and not engine.asked and b'"error"' in got.body

    run(test())


def test_an_administrative_path_opened_for_one_engine_reaches_no_other() -> None:
    async def test() -> None:
        opened, closed = Engine(answers(json_answer(b"{}"))), Engine(answers(json_answer(b"{}")))
        await opened.start()
        await closed.start()
        fleets = [
            FleetSpec(
                "alpha",
                ("alpha",),
                True,
                (
                    EngineSpec(0, opened.url, kind="vllm", allow_paths=("/pause",)),
                    EngineSpec(1, closed.url, kind="vllm"),
                ),
                "round_robin",
            ),
            FleetSpec("beta", ("beta",), False, (EngineSpec(2, closed.url, kind="vllm"),), "round_robin"),
        ]
        async with running(opened, closed, fleets=fleets) as gateway:
            for _ in range(3):
                assert (await ask(gateway.port, post(b'{"model":"alpha"}', "/pause"))).status == 200
            assert (await ask(gateway.port, post(b'{"model":"beta"}', "/pause"))).status == 404
        assert len(opened.asked) == 3 and not closed.asked

    run(test())


def test_the_model_wherever_it_stands_chooses_the_fleet_and_an_unknown_one_is_a_404() -> None:
    async def test() -> None:
        a, b = Engine(answers(json_answer(b'"a"'))), Engine(answers(json_answer(b'"b"')))
        await a.start()
        await b.start()
        fleets = [
            FleetSpec("alpha", ("alpha", "al"), False, (EngineSpec(0, a.url, kind="vllm"),), "least_load"),
            FleetSpec("beta", ("beta", "lora-1"), False, (EngineSpec(1, b.url, kind="vllm"),), "least_load"),
        ]
        long = (
            b'{"messages":[{"role":"user","content":"'
            + b'\\"model\\":\\"alpha\\"' * 9000
            + b'"}],"model":"beta"}'
        )
        async with running(a, b, fleets=fleets) as gateway:
            for body, answer in [
                (b'{"model":"alpha"}', b'"a"'),
                (b'{"x":{"model":"alpha"},"model":"lora-1"}', b'"b"'),
                (b'{"model":"al","prompt":"x"}', b'"a"'),
                (long, b'"b"'),
            ]:
                assert (await ask(gateway.port, post(body))).body == answer
            got = await ask(gateway.port, post(b'{"model":"gamma"}'))
            assert (
                got.status == 404
                and b"alpha" in got.body
                and b"beta" in got.body
                and b"model_not_found" in got.body
            )
            request = b"GET /v1/models HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n"
            listed = await ask(gateway.port, request)
            assert all(name in listed.body for name in (b"alpha", b"beta", b"lora-1"))

    run(test())


def test_an_engines_key_replaces_the_clients_and_its_own_model_name_is_spliced_in() -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        await engine.start()
        spec = EngineSpec(0, engine.url, kind="vllm", api_key="engine-key", model="tiny")
        fleets = [FleetSpec("alpha", ("alpha",), True, (spec,), "least_load")]
        body = b'{"messages":[ {"role":"user","content":"\\"model\\":\\"alpha\\""} ] , "model" : "alpha"}'
        async with running(engine, fleets=fleets) as gateway:
            extra = (
                "Authorization: Bearer users",
                "X-Api-Key: users",
                "traceparent: 00-ab",
                "X-Request-Id: r1",
            )
            await ask(gateway.port, post(body, "/v1/chat/completions", *extra))
        peer = engine.asked[0]
        assert peer.body == body.replace(b': "alpha"', b': "tiny"')
        headers = {name.lower(): value for name, value in peer.headers}
        assert headers["authorization"] == "Bearer engine-key" and "x-api-key" not in headers
        assert headers["traceparent"] == "00-ab" and headers["x-request-id"] == "r1"

    run(test())


def test_pipelined_requests_are_answered_in_order() -> None:
    async def test() -> None:
        turn = 0

        async def script(peer: Peer) -> None:
            nonlocal turn
            turn += 1
            await asyncio.sleep(0.03 if turn == 1 else 0)
            await peer.send(json_answer(b"%d" % len(peer.body)))

        bodies = [b'{"model":"m","a":"%b"}' % (b"x" * n) for n in (1, 20, 300)]
        async with running(Engine(script)) as gateway:
            requests = [post(body, close=body is bodies[-1]) for body in bodies]
            got = await ask(gateway.port, b"".join(requests))
        found = [part.split(b"\r\n\r\n")[1] for part in got.raw.split(b"HTTP/1.1 ")[1:]]
        assert found == [b"%d" % len(body) for body in bodies]

    run(test())


def test_requests_in_single_bytes_and_chunked_bodies_are_read() -> None:
    async def test() -> None:
        engine = Engine(streams(TOKEN, FINISH))
        async with running(engine) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n"
            head += b"Connection: close\r\n\r\n"
            for byte in head + chunk(CHAT[:9]) + chunk(CHAT[9:]) + LAST:
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            got = parse(await reader.read())
            writer.close()
        assert got.is_whole and b"tok" in got.text and engine.asked[0].body == CHAT

    run(test())


def test_http_1_0_clients_get_an_answer_that_ends_with_the_connection() -> None:
    async def test() -> None:
        request = post().replace(b"HTTP/1.1", b"HTTP/1.0")
        got = await through(Engine(streams(TOKEN, FINISH)), request)
        assert not got.header("transfer-encoding") and got.body.endswith(b"data: [DONE]\n\n")

    run(test())


def test_an_answer_framed_by_its_connections_end_reaches_the_client_whole() -> None:
    async def script(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\none ")
        await asyncio.sleep(0.02)
        await peer.send(b"two")
        peer.close()

    async def test() -> None:
        got = await through(Engine(script), post(NOT_STREAMED))
        assert got.is_whole and got.text == b"one two"

    run(test())
