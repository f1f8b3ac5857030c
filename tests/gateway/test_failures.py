"""Failures known from public trackers (H01-H40), over real sockets: the relay's side of each."""

import asyncio
import gzip
import socket
from collections.abc import Coroutine
from typing import Any

import pytest
import uvloop

from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from tests.support import (
    CHAT,
    FINISH,
    LAST,
    ROLE,
    SSE_HEAD,
    TOKEN,
    Answered,
    Engine,
    Peer,
    answers,
    ask,
    chunk,
    event,
    json_answer,
    parse,
    post,
    running,
    streams,
    until,
)

BUSY = '{"error":{"message":"busy","type":"Service Unavailable","param":null,"code":503}}'
NOT_STREAMED = CHAT.replace(b"true", b"false")


def run(test: Coroutine[Any, Any, None]) -> None:
    uvloop.run(test)


async def through(engine: Engine, request: bytes = b"") -> Answered:
    async with running(engine) as gateway:
        return await ask(gateway.port, request or post())


def test_h01_cut_anywhere() -> None:
    """Wherever the engine's reads are cut, the client gets the same bytes."""
    body = "".join(
        f"data: {one}\n\n" for one in (ROLE, TOKEN.replace("tok", "café 한국어 🙂"), FINISH)
    ).encode()

    async def test() -> None:
        cut = 0

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, chunk(body[:cut]) if cut else b"")
            await asyncio.sleep(0.001)
            await peer.send(chunk(body[cut:]), LAST)

        engine = Engine(script)
        async with running(engine) as gateway:
            for cut in range(0, len(body), 3):  # noqa: B007 - the script reads it
                assert (await ask(gateway.port, post())).text == body

    run(test())


def test_h03_held_back() -> None:
    """The head goes on with the first comment at once; and events one by one, not joined at the end."""

    async def test() -> None:
        asked = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, chunk(b": waiting\n\n"))
            await asked.wait()
            await peer.send(event(TOKEN), event(FINISH), LAST)

        engine = Engine(script)
        async with running(engine) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(post())
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
            assert b": waiting" in await reader.readuntil(b"\n\n")
            asked.set()
            assert b"tok" in await reader.readuntil(b"\n\n")
            writer.close()

    run(test())


def test_h03_a_head_without_an_event_is_held_a_moment_and_then_sent() -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD)
            await go_on.wait()
            await peer.send(event(TOKEN), event(FINISH), LAST)

        async with running(Engine(script), limits=LimitsSpec(hold_head_ms=20)) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(post())
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
            go_on.set()
            assert (await reader.read()).endswith(LAST)
            writer.close()

    run(test())


@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500, 503])
def test_h06_error_becomes_200(status: int) -> None:
    """An error before any event keeps its status, body, content type and Retry-After (H32)."""
    body = b'{"error":{"message":"too long","code":1}}'

    async def test() -> None:
        script = answers(
            json_answer(body, f"{status} Reason", "Retry-After: 7", "x-ratelimit-remaining-requests: 0")
        )
        got = await through(Engine(script))
        assert (got.status, got.text) == (status, body)
        assert got.header("content-type") == ["application/json"]
        assert got.header("retry-after") == ["7"] and got.header("x-ratelimit-remaining-requests") == ["0"]

    run(test())


@pytest.mark.parametrize("ending", ["reset", "close"])
def test_h07_cut_looks_complete(ending: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD, event(TOKEN), event(TOKEN), b"40\r\ndata: {half")
        await asyncio.sleep(0.05)
        peer.reset() if ending == "reset" else peer.close()

    async def test() -> None:
        got = await through(Engine(script))
        assert got.status == 200 and not got.is_whole
        assert b"upstream_cut" in got.text and b"\n\ndata: {" in got.text and b"[DONE]" not in got.text

    run(test())


def test_h07_a_cut_answer_with_a_length_stays_short() -> None:
    async def script(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await asyncio.sleep(0.05)
        peer.reset()

    async def test() -> None:
        got = await through(Engine(script), post(NOT_STREAMED))
        assert got.status == 200 and got.body == b"half" and not got.is_whole

    run(test())


@pytest.mark.parametrize("payloads", [(TOKEN, FINISH), (TOKEN,)], ids=["with finish_reason", "with neither"])
def test_h09_no_done_is_relayed_as_it_is(payloads: tuple[str, ...]) -> None:
    async def test() -> None:
        got = await through(Engine(streams(*payloads, done=False)))
        assert got.is_whole and got.text == "".join(f"data: {one}\n\n" for one in payloads).encode()

    run(test())


def test_h08_error_event_in_200_is_relayed_unchanged() -> None:
    async def test() -> None:
        got = await through(Engine(streams(TOKEN, '{"error":{"message":"kv full","code":503}}')))
        assert got.text.count(b"kv full") == 1 and got.text.count(b"tok") == 1 and got.is_whole

    run(test())


def test_h10_retry_after_first_token_never_happens() -> None:
    async def cut(peer: Peer) -> None:
        await peer.send(SSE_HEAD, event(TOKEN))
        await asyncio.sleep(0.02)
        peer.reset()

    async def test() -> None:
        first, second = Engine(cut), Engine(cut)
        async with running(first, second) as gateway:
            got = await ask(gateway.port, post())
        assert got.text.count(b"tok") == 1 and not got.is_whole
        assert len(first.asked) + len(second.asked) == 1

    run(test())


@pytest.mark.parametrize(
    "refusal",
    [
        answers(json_answer(b"{}", "503 Service Unavailable")),
        answers(json_answer(b"{}", "429 Too Many Requests")),
        answers(json_answer(b"{}", "502 Bad Gateway")),
        streams(BUSY),
        answers(SSE_HEAD, chunk(b": ping\n\n"), event(BUSY), LAST),
    ],
    ids=["503", "429", "502", "inside a 200", "inside a 200 after a comment"],
)
def test_a_refusal_before_the_first_event_goes_to_another_engine(refusal: Any) -> None:
    async def test() -> None:
        busy, free = Engine(refusal), Engine(streams(TOKEN, FINISH))
        async with running(busy, free, policy="round_robin") as gateway:
            got = [await ask(gateway.port, post()) for _ in range(4)]
            assert [(one.status, b"tok" in one.text, one.is_whole) for one in got] == [(200, True, True)] * 4
            assert busy.asked and gateway.inflight(0) == gateway.inflight(1) == 0

    run(test())


def test_when_every_engine_refuses_the_last_refusal_is_passed_on() -> None:
    async def test() -> None:
        engines = [Engine(streams(BUSY)), Engine(streams(BUSY))]
        async with running(*engines) as gateway:
            got = await ask(gateway.port, post())
        assert b'"busy"' in got.text and got.is_whole

    run(test())


def test_h12_silent_engine_before_the_head_is_a_504() -> None:
    async def script(peer: Peer) -> None:
        await peer.left()

    async def test() -> None:
        limits = LimitsSpec(first_token_timeout_s=0.5)
        async with running(Engine(script), limits=limits) as gateway:
            got = await ask(gateway.port, post())
        assert got.status == 504 and b"upstream_timeout" in got.text

    run(test())


def test_h12_silence_after_the_first_token_is_said_in_the_stream() -> None:
    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD, event(TOKEN))
        await peer.left()

    async def test() -> None:
        limits = LimitsSpec(idle_timeout_s=0.5)
        async with running(Engine(script), limits=limits) as gateway:
            got = await ask(gateway.port, post())
        assert b"tok" in got.text and b"timeout" in got.text and not got.is_whole

    run(test())


@pytest.mark.parametrize("sent", [b"", SSE_HEAD, SSE_HEAD + event(TOKEN)], ids=["before", "head", "token"])
def test_h13_h14_a_client_that_leaves_frees_the_engine(sent: bytes) -> None:
    async def test() -> None:
        left = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(sent)
            if await peer.left():
                left.set()

        engine = Engine(script)
        async with running(engine) as gateway:
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(post())
            await until(lambda: bool(engine.asked))
            writer.close()
            await asyncio.wait_for(left.wait(), 5)
            await until(lambda: gateway.inflight() == 0)

    run(test())


def test_h15_slow_reader_stops_the_engine_and_not_the_memory() -> None:
    async def test() -> None:
        sent = 0

        async def script(peer: Peer) -> None:
            nonlocal sent
            await peer.send(SSE_HEAD, event(TOKEN))
            for _ in range(3200):
                await peer.send(chunk(b"x" * 65536))
                sent += 65536

        async with running(Engine(script)) as gateway:
            client = socket.create_connection(("127.0.0.1", gateway.port))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            client.sendall(post())
            await until(lambda: sent > 0)
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.3)
            assert sent < 64 << 20
            client.close()
            await until(lambda: gateway.inflight() == 0)

    run(test())


def test_h16_slot_never_freed() -> None:
    """However requests end, the load goes back to nothing."""

    async def test() -> None:
        turn = 0

        async def script(peer: Peer) -> None:
            nonlocal turn
            turn += 1
            match turn % 4:
                case 0:
                    await peer.send(SSE_HEAD, event(TOKEN), event(FINISH), LAST)
                case 1:
                    peer.reset()
                case 2:
                    await peer.send(SSE_HEAD, event(TOKEN))
                    peer.reset()
                case 3:
                    await peer.send(b"garbage\r\n\r\n")

        async with running(Engine(script)) as gateway:
            for _ in range(12):
                await ask(gateway.port, post())
            assert gateway.inflight() == 0 and gateway.loads.totals(0) == (0, 0)

    run(test())


SMUGGLED = b"0\r\n\r\nGET /smug HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: +5",
        b"Content-Length : 5",
        b"Content-Length: 5\r\n 6",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding:\x0bchunked",
        b"Content-Length: 5\nTransfer-Encoding: chunked",
    ],
)
def test_h17_two_framings(fields: bytes) -> None:
    async def test() -> None:
        engine = Engine(streams(TOKEN, FINISH))
        request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + fields + b"\r\n\r\n" + SMUGGLED
        async with running(engine) as gateway:
            got = await ask(gateway.port, request)
        assert got.status in (400, 501) and b"invalid_request_error" in got.body
        assert not engine.asked

    run(test())


def test_h18_header_copying() -> None:
    async def test() -> None:
        answer = (
            b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\n"
            b"Set-Cookie: b=2; Expires=Wed, 01 Jan 2031 00:00:00 GMT\r\nX-Tag: one\r\n"
            b"Connection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\n{}"
        )
        engine = Engine(answers(answer))
        got = await through(engine, post(CHAT, "/v1/chat/completions", "TE: gzip", "X-Mine: 1", "X-Mine: 2"))
        assert got.header("set-cookie") == ["a=1", "b=2; Expires=Wed, 01 Jan 2031 00:00:00 GMT"]
        assert got.header("x-tag") == ["one"]
        assert not got.header("x-hop") and not got.header("keep-alive")
        sent = [value for name, value in engine.asked[0].headers if name == "X-Mine"]
        assert sent == ["1", "2"]
        names = [name.lower() for name, _ in engine.asked[0].headers]
        assert "te" not in names and names.count("host") == 1 and names.count("content-length") == 1

    run(test())


def test_h19_idle_connection_race() -> None:
    """An engine that closes after each answer without saying so costs no request, and none arrives twice."""

    async def script(peer: Peer) -> None:
        await peer.send(json_answer(b"{}"))
        await asyncio.sleep(0.004)
        peer.close()

    async def test() -> None:
        engine = Engine(script)
        async with running(engine) as gateway:
            for gap_ms in [0, 2, 3, 4, 5, 6] * 8:
                got = await ask(gateway.port, post(NOT_STREAMED))
                assert (got.status, got.body) == (200, b"{}")
                await asyncio.sleep(gap_ms / 1e3)
        assert len(engine.asked) == 48

    run(test())


def test_h20_encodings_pass_both_ways_untouched() -> None:
    packed = gzip.compress(b'{"ok":true}')

    async def test() -> None:
        engine = Engine(answers(json_answer(packed, "200 OK", "Content-Encoding: gzip")))
        body = gzip.compress(NOT_STREAMED)
        got = await through(engine, post(body, "/v1/chat/completions", "Content-Encoding: gzip"))
        assert got.body == packed and got.header("content-encoding") == ["gzip"]
        assert engine.asked[0].body == body

    run(test())


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


def test_h40_a_drain_finishes_what_runs_and_takes_nothing_new() -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN))
            await go_on.wait()
            await peer.send(event(FINISH), LAST)

        engine = Engine(script)
        async with running(engine) as gateway:
            running_request = asyncio.get_running_loop().create_task(ask(gateway.port, post(close=False)))
            await until(lambda: bool(engine.asked))
            gateway.stop.set()
            await asyncio.sleep(0.1)
            go_on.set()
            got = await running_request
            assert got.is_whole and b"finish_reason" in got.text

    run(test())
