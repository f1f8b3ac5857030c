"""Clients hammer at once, because the engine's Retry-After did not arrive, or our own 429 has none."""

import asyncio
import json
from typing import Any

import pytest

from gateway.spec import EngineSpec, FleetSpec, KeySpec, LimitsSpec, RoomSpec
from tests.admission.staging import spec
from tests.connections import unheard
from tests.failures.support import NOT_STREAMED, PATH, at_once
from tests.support import (
    CHAT,
    SSE_HEAD,
    TOKEN,
    Answered,
    Engine,
    Peer,
    ask,
    chunk,
    event,
    json_answer,
    parse,
    post,
    running,
    until,
)
from tests.support_shared import run

STATUSES = ("429 Too Many Requests", "503 Service Unavailable", "502 Bad Gateway", "413 Large", "301 Moved")
WHENS = ("7", "0", "120", "1.5", "Wed, 21 Oct 2035 07:28:00 GMT", "", "soon", None)
LIMITS = (
    "x-ratelimit-limit-requests: 60",
    "x-ratelimit-remaining-requests: 0",
    "X-RateLimit-Reset-Tokens: 6m0s",
    "anthropic-ratelimit-requests-reset: 2035-01-01T00:00:00Z",
    "RateLimit: limit=10, remaining=0, reset=7",
)
BODIES = (
    b"{}",
    b"",
    b'{"error":{"message":"full","type":"rate_limit","code":429}}',
    b"plain text",
    b"\xff\x00" * 999,
)


def expects(got: Answered) -> int:
    """What a refusal of the gateway's own tells a client to wait: whole seconds, at least one."""
    (when,) = got.header("retry-after")
    assert when.isascii() and when.isdigit() and int(when) >= 1, when
    error = json.loads(got.text)["error"]
    assert error["message"] and error["type"] and "code" in error and "param" in error
    return int(when)


@pytest.mark.parametrize("engines", [1, 2])
@pytest.mark.parametrize("stream", [True, False], ids=["asked to stream", "not"])
def test_h32_retry_after_lost_never_what_an_engine_says_arrives_as_it_is(engines: int, stream: bool) -> None:
    """Status, wait, limits and body; of one engine, and of the last of several that were tried."""

    async def test() -> None:
        cases = [(status, when, body) for status in STATUSES for when in WHENS for body in BODIES]

        async def script(peer: Peer) -> None:
            status, when, body = cases[int(peer.line.split("?")[1].split()[0])]
            extra = [*LIMITS, *([f"Retry-After: {when}"] if when is not None else [])]
            await peer.send(json_answer(body, status, *extra))

        limits = LimitsSpec(retries=16)
        async with running(*(Engine(script) for _ in range(engines)), limits=limits) as gateway:
            body = CHAT if stream else NOT_STREAMED
            asked = (ask(gateway.port, post(body, f"{PATH}?{n}")) for n in range(len(cases)))
            for (status, when, told), got in zip(cases, await at_once(asked), strict=True):
                assert (got.status, got.body) == (int(status[:3]), told), (status, when)
                assert got.header("retry-after") == ([] if when is None else [when])
                for line in LIMITS:
                    name, value = line.split(": ")
                    assert got.header(name.lower()) == [value]

    run(test())


def nobody(port: int) -> FleetSpec:
    return FleetSpec(None, (), True, (EngineSpec(0, f"http://127.0.0.1:{port}", kind="vllm"),), "least_load")


@pytest.mark.parametrize("body", [CHAT, NOT_STREAMED, b"[" + b"1," * 9_000], ids=["stream", "whole", "large"])
def test_h32_retry_after_lost_never_when_no_engine_is_there(body: bytes) -> None:
    """Each 503 of the gateway's own says when to come again; also to what is no POST, and to its health."""

    async def test() -> None:
        with unheard() as port:
            async with running(fleets=[nobody(port)], limits=LimitsSpec(read_bytes=5_000)) as gateway:
                get = b"GET /v1/x HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n"
                seen: list[int] = []
                for _ in range(12):
                    for request in (post(body), get):
                        got = await ask(gateway.port, request)
                        seen.append(got.status)
                        if got.status == 503:
                            expects(got)
                assert set(seen) <= {502, 503} and seen[-1] == 503
                health = await ask(gateway.port, get.replace(b"/v1/x", b"/health"))
                assert health.status == 503 and int(health.header("retry-after")[0]) >= 1

    run(test())


FEW_TOKENS: dict[str, Any] = {"prompt_tokens_per_s": 0.01, "prompt_tokens_burst": 3}


@pytest.mark.parametrize(
    ("told", "status", "reason"),
    [
        ({"keys": [KeySpec("k", 0, requests_per_s=0.01)]}, 429, "key_requests"),
        ({"keys": [KeySpec("k", 0, **FEW_TOKENS)]}, 429, "key_prompt_tokens"),
        ({"keys": [KeySpec("k", 0, concurrency=1)]}, 429, "key_concurrency"),
        ({"everyone": {"requests_per_s": 0.01}}, 503, "all_requests"),
        ({"everyone": FEW_TOKENS}, 503, "all_prompt_tokens"),
        ({"everyone": {"concurrency": 1}}, 503, "all_concurrency"),
        ({"rooms": [RoomSpec(None, concurrency=1, waits=False)]}, 503, "fleet_full"),
        ({"rooms": [RoomSpec(None, concurrency=1)], "queue_entries": 0}, 503, "queue_entries"),
        ({"rooms": [RoomSpec(None, concurrency=1)], "queue_bytes": 20}, 503, "queue_bytes"),
        ({"rooms": [RoomSpec(None, concurrency=1)], "queue_wait_s": 0.1}, 503, "queue_wait"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_h32_retry_after_lost_never_when_a_limit_says_no(
    told: dict[str, Any], status: int, reason: str
) -> None:
    """Which limit, in OpenAI's envelope, and when to come again; also to one that asks with a HEAD."""

    async def test() -> None:
        go_on = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN))
            await go_on.wait()
            await peer.send(event("[DONE]"), b"0\r\n\r\n")

        limits = spec(**{"keys": [KeySpec("k", 0)], "rooms": [RoomSpec(None)], **told})
        engine = Engine(script)
        async with running(engine, admission=limits) as gateway:
            first = asyncio.get_running_loop().create_task(ask(gateway.port, post()))
            await until(lambda: bool(engine.asked))
            got = await ask(gateway.port, post())
            assert got.status == status
            assert json.loads(got.text)["error"]["code"] == reason
            assert expects(got) >= (50 if reason.endswith(("requests", "tokens")) else 1)
            if not reason.endswith(("tokens", "bytes")):  # a HEAD has neither
                head = await ask(gateway.port, b"HEAD /v1/x HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n")
                assert head.status == status and head.body == b"" and head.header("retry-after")
            go_on.set()
            assert (await first).status == 200
            assert len(engine.asked) == 1

    run(test())


def test_h32_retry_after_lost_never_while_the_gateway_drains() -> None:
    """What comes on a connection that is still open is told to come again, if it is not served."""

    async def test() -> None:
        go_on = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN))
            await go_on.wait()
            await peer.send(chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n")

        engine = Engine(script)
        async with running(engine) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(post(close=False) + post(close=False))  # the second waits behind the first
            await until(lambda: bool(engine.asked))
            gateway.stop.set()
            go_on.set()
            raw = await asyncio.wait_for(reader.read(), 30)
            writer.close()
            parts = raw.split(b"HTTP/1.1 ")[1:]
            assert parts[0].startswith(b"200") and b"[DONE]" in parts[0]
            for part in parts[1:]:
                got = parse(b"HTTP/1.1 " + part)
                assert got.status == 200 or expects(got)

    run(test())
