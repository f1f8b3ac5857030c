"""A line for what no engine answered, and for WebSockets: each request has one, whoever ended it."""

import json
import os
from typing import Any

import pytest
import uvloop
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import InvalidStatus

from gateway.admission.keys import hashed
from gateway.spec import AdmissionSpec, EngineSpec, FleetSpec, KeySpec, LimitsSpec, RoomSpec
from tests.support import (
    CHAT,
    FINISH,
    TOKEN,
    Engine,
    answers,
    ask,
    json_answer,
    post,
    running,
    streams,
    until,
)
from tests.support_shared import access_lines, echo

KEY = "k" * 32
KEYED = AdmissionSpec((KeySpec("team", 0, hashed(KEY)),), KeySpec("everyone", 0), (RoomSpec(None, 0),))
SHOWN = f"Authorization: Bearer {KEY}"
GET = "GET %s HTTP/1.1\r\nHost: g\r\n%s\r\nConnection: close\r\n\r\n"


PATH = "/v1/chat/completions"
UPGRADE = "Upgrade: foo", "Connection: upgrade"
HANDSHAKE = "Upgrade: websocket\r\nSec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13"
CHUNKED = f"POST {PATH} HTTP/1.1\r\nHost: g\r\n{SHOWN}\r\nTransfer-Encoding: chunked\r\n\r\n"
ASKING = (GET % ("/v1/realtime?model=m", HANDSHAKE)).replace("close", "upgrade").encode()
REFUSED: dict[str, tuple[bytes, int, str, str]] = {
    "no key": (post(), 401, "limited", PATH),
    "no key for models": ((GET % ("/v1/models", "X-A: b")).encode(), 401, "limited", "/v1/models"),
    "models": ((GET % ("/v1/models?a=b", SHOWN)).encode(), 200, "complete", "/v1/models"),
    "no such path": (post(b"abc", "/pause?x=y", SHOWN), 404, "client_error", "/pause"),
    "dots": (post(CHAT, "/v1/../pause", SHOWN), 404, "client_error", ""),
    "upgrade": (post(CHAT, "/v1/x", SHOWN, *UPGRADE), 501, "client_error", "/v1/x"),
    "no key, upgrade": (ASKING, 401, "limited", "/v1/realtime"),
    "no host": (b"GET /v1/models HTTP/1.1\r\n\r\n", 400, "client_error", ""),
    "no http": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "client_error", ""),
    "bad chunk": ((CHUNKED + "zz\r\n").encode(), 400, "client_error", PATH),
    "half a head": (b"GET /v1/mod", 408, "client_error", ""),
    "half a body": (post(CHAT, PATH, SHOWN)[:-5], 408, "client_error", PATH),
    "half a body of what is refused": (post(CHAT, "/pause", SHOWN)[:-5], 408, "client_error", "/pause"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_gateway_answers_itself_has_a_line_and_the_client_its_id(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    request, status, outcome, path = REFUSED[name]

    async def test() -> str:
        limits = LimitsSpec(head_timeout_s=0.2, body_timeout_s=0.2, drain_s=1)
        engine = Engine(streams(TOKEN, FINISH))
        async with running(engine, limits=limits, admission=KEYED, access_share=1.0) as gateway:
            got = await ask(gateway.port, request)
            assert got.status == status and not engine.asked and gateway.inflight() == 0, got.raw
            return got.header("x-request-id")[0]

    id = uvloop.run(test())
    told = access_lines(capfd)
    assert list(told) == [id]
    assert (told[id]["outcome"], told[id]["status"], told[id]["path"]) == (outcome, status, path)
    assert told[id]["level"] == "info" and told[id]["end_ms"] >= 0 and KEY not in json.dumps(told)
    assert told[id].get("key") == ("team" if SHOWN.encode() in request and name != "no key" else None)


def test_where_no_share_is_asked_for_refusals_have_no_line(capfd: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        limits = LimitsSpec(head_timeout_s=0.2, body_timeout_s=0.2, drain_s=1)
        async with running(Engine(streams()), limits=limits, admission=KEYED) as gateway:
            for request, *_ in REFUSED.values():
                await ask(gateway.port, request)

    uvloop.run(test())
    assert not access_lines(capfd)


def test_a_probe_has_no_line_and_a_refusal_of_what_an_engine_began_has_one(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The body was going by when it stopped: the engine is named, and the client did not leave."""

    async def test() -> None:
        async def script(peer: Any) -> None:
            await peer.left()

        limits = LimitsSpec(read_bytes=1000, body_timeout_s=0.2, drain_s=1)
        async with running(Engine(script), limits=limits, access_share=1.0) as gateway:
            assert (await ask(gateway.port, (GET % ("/health", "X-A: b")).encode())).status == 200
            head = "POST /v1/files HTTP/1.1\r\nHost: g\r\nX-Request-Id: slow\r\nContent-Length: 99999\r\n\r\n"
            assert (await ask(gateway.port, head.encode() + b"x" * 20_000)).status == 408
            await until(lambda: gateway.inflight() == 0)

    uvloop.run(test())
    told = access_lines(capfd)
    assert list(told) == ["slow"]
    assert (told["slow"]["outcome"], told["slow"]["status"]) == ("client_error", 408)
    assert told["slow"]["engine"] and told["slow"]["bytes_in"] == 20_000


def test_a_websocket_has_a_line_when_it_is_over(capfd: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        async with serve(echo, "127.0.0.1", 0, ping_interval=None) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            fleets = (
                FleetSpec("m", ("m",), True, (EngineSpec(0, f"http://127.0.0.1:{port}"),), "least_load"),
            )
            async with running(fleets=fleets, access_share=1.0) as gateway:
                url = f"ws://127.0.0.1:{gateway.port}/v1/realtime?model=m&secret=canary"
                async with connect(url, additional_headers={"X-Request-Id": "ws"}) as tunnel:
                    sent = os.urandom(1000)  # nothing to be compressed
                    await tunnel.send(sent)
                    assert await tunnel.recv() == sent
                await until(lambda: gateway.inflight() == 0)
                with pytest.raises(InvalidStatus):
                    await connect(url.replace("=m&", "=n&"), additional_headers={"X-Request-Id": "none"})

    uvloop.run(test())
    told = access_lines(capfd)
    line = told["ws"]
    assert (line["outcome"], line["status"]) == ("complete", 101)
    assert (line["method"], line["path"]) == ("GET", "/v1/realtime")
    assert (line["fleet"], line["model"]) == ("m", "m") and line["engine"] and line["why"]
    assert line["bytes_in"] > 1000 and line["bytes_out"] > 1000 and "canary" not in json.dumps(told)
    at = [line[f"{name}_ms"] for name in ("body", "chosen", "sent", "head", "end")]
    assert at == sorted(at) and at[0] >= 0
    assert (told["none"]["outcome"], told["none"]["status"]) == ("client_error", 404)


def test_a_websocket_that_its_engine_refuses_or_never_answers_has_a_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}", "403 No")))
        async with running(engine, limits=LimitsSpec(retries=0, drain_s=1), access_share=1.0) as gateway:
            for id in ("403", "gone"):
                with pytest.raises(InvalidStatus):
                    await connect(
                        f"ws://127.0.0.1:{gateway.port}/v1/realtime?model=m",
                        additional_headers={"X-Request-Id": id},
                    )
                await engine.stop()

    uvloop.run(test())
    told = {id: (line["outcome"], line["status"]) for id, line in access_lines(capfd).items()}
    assert told == {"403": ("client_error", 403), "gone": ("no_engine", 503)}
