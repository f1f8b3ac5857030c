"""Bodies decoded on the way with their header kept, or not understood where a client packed them."""

import gzip
import json
import random
import sys
import zlib
from collections.abc import Callable

import pytest

from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from tests.failures.support import NOT_STREAMED, PATH, ask_each, number, numbered
from tests.support import CHAT, LAST, Engine, Peer, answers, ask, chunk, json_answer, post, running
from tests.support_shared import run

if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd


def deflated(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-15)
    return made.compress(data) + made.flush()


CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZip": gzip.compress,
    "deflate": zlib.compress,
    "deflate ": deflated,  # without its header, as some do
    "zstd": zstd.compress,
    "gzip, zstd": lambda data: zstd.compress(gzip.compress(data)),
    "identity": lambda data: data,
}
OPAQUE = random.Random(1).randbytes(500)
# Codings of answers: none is decoded, so none need be known.
ANSWERED = [*CODERS, "br", "compress", "dcb", "made-up", "gzip, br"]
FRAMINGS = ("length", "chunks", "end", "stream")


@pytest.mark.parametrize("framing", FRAMINGS)
def test_h20_encodings_of_answers_pass_untouched(framing: str) -> None:
    """The header describes the bytes: both as the engine sent them, sound, broken and unknown, any status."""
    said = b'{"ok":true}' * 50
    bodies = [CODERS[coding](said) if coding in CODERS else OPAQUE for coding in ANSWERED]
    bodies[0] = bodies[0][:-5] + b"wrong"  # whose checksum does not hold
    statuses = ["200 OK", "400 Bad Request", "503 Busy"]
    cases = [(n, status) for n in range(len(ANSWERED)) for status in statuses]

    async def script(peer: Peer) -> None:
        n, status = cases[number(peer)]
        body = bodies[n]
        stated = {
            "length": f"Content-Length: {len(body)}\r\n",
            "end": "",
            "chunks": "Transfer-Encoding: chunked\r\n",
            "stream": "Transfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n",
        }[framing]
        head = (
            f"HTTP/1.1 {status}\r\nContent-Encoding: {ANSWERED[n]}\r\nVary: Accept-Encoding\r\n{stated}\r\n"
        )
        chunked = b"".join(chunk(body[at : at + 7]) for at in range(0, len(body), 7)) + LAST
        await peer.send(head.encode(), chunked if framing in ("chunks", "stream") else body)
        if framing == "end":
            peer.close()

    async def test() -> None:
        async with running(Engine(script)) as gateway:
            for (n, status), got in zip(cases, await ask_each(gateway.port, len(cases)), strict=True):
                assert got.raw.startswith(f"HTTP/1.1 {status}\r\n".encode())
                assert got.header("content-encoding") == [ANSWERED[n].strip()]
                assert got.header("vary") == ["Accept-Encoding"]
                assert got.is_whole and got.text == bodies[n], (ANSWERED[n], status)
                if framing == "length":
                    assert got.header("content-length") == [str(len(bodies[n]))]

    run(test())


def test_h20_encodings_are_offered_to_engines_only_as_the_client_did() -> None:
    """What it cannot read is not asked for; what it can is asked for in its own words."""
    offers = [
        [],
        ["gzip"],
        ["br;q=1.0, gzip;q=0.8, *;q=0.1"],
        ["identity"],
        [""],
        ["zstd", "gzip"],
        ["*;q=0"],
    ]

    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        async with running(engine) as gateway:
            for n, offer in enumerate(offers):
                fields = [f"Accept-Encoding: {one}" for one in offer]
                assert (await ask(gateway.port, numbered(n, CHAT, *fields))).status == 200
        for peer in engine.asked:
            seen = [value for name, value in peer.headers if name.lower() == "accept-encoding"]
            assert seen == offers[number(peer)]

    run(test())


def two_fleets(one: Engine, other: Engine) -> list[FleetSpec]:
    return [
        FleetSpec(name, (name,), False, (EngineSpec(n, engine.url, kind="vllm"),), "least_load")
        for n, (name, engine) in enumerate((("alpha", one), ("beta", other)))
    ]


@pytest.mark.parametrize("coding", CODERS)
@pytest.mark.parametrize("framed", ["length", "chunks"])
def test_h20_encodings_of_requests_are_read_and_sent_as_they_came(coding: str, framed: str) -> None:
    """Small and large ones find their fleet by what is inside; the engine gets the client's very bytes."""
    texts = ["hi", "long " * 2000, json.dumps(OPAQUE.hex() * 40)[1:-1]]

    async def test() -> None:
        engines = Engine(answers(json_answer(b'"alpha"'))), Engine(answers(json_answer(b'"beta"')))
        for engine in engines:
            await engine.start()
        async with running(*engines, fleets=two_fleets(*engines)) as gateway:
            for text in texts:
                for name, engine in zip(("alpha", "beta"), engines, strict=True):
                    message = {"messages": [{"role": "user", "content": text}], "model": name}
                    body = CODERS[coding](json.dumps(message).encode())
                    request = post(body, PATH, f"Content-Encoding: {coding}")
                    if framed == "chunks":
                        stated = f"Content-Length: {len(body)}".encode()
                        request = request.replace(stated, b"Transfer-Encoding: chunked")[: -len(body)]
                        request += chunk(body[:40]) + (chunk(body[40:]) if body[40:] else b"") + LAST
                    got = await ask(gateway.port, request)
                    assert (got.status, got.body) == (200, f'"{name}"'.encode()), (coding, text[:9])
                    assert engine.asked[-1].body == body
                    low = {field.lower(): value for field, value in engine.asked[-1].headers}
                    assert low["content-encoding"] == coding.strip()
            assert gateway.loads.totals(0) == gateway.loads.totals(1) == (0, 0, 0, 0)

    run(test())


BOMB = {"gzip": gzip.compress(b"0" * (200 << 20), 1), "zstd": zstd.compress(b"0" * (200 << 20))}


@pytest.mark.parametrize("coding", BOMB)
def test_h20_encodings_that_blow_up_cost_no_more_than_may_be_read(coding: str) -> None:
    """200 MB of zeros in a small body: answered at once, and the next request is served."""
    limits = LimitsSpec(read_bytes=1 << 20)

    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        async with running(engine, limits=limits) as gateway:
            for body in (BOMB[coding], CODERS[coding](BOMB[coding]) + b""):
                got = await ask(gateway.port, post(body, PATH, f"Content-Encoding: {coding}"), timeout_s=30)
                assert got.status in (200, 400, 413)
            assert (await ask(gateway.port, post(NOT_STREAMED))).status == 200
            assert gateway.loads.totals(0) == (0, 0, 0, 0)

    run(test())


WRONG: dict[str, tuple[str, bytes, int]] = {
    "not what it says": ("gzip", NOT_STREAMED, 400),
    "cut short": ("gzip", gzip.compress(NOT_STREAMED)[:-9], 400),
    "not zstd": ("zstd", gzip.compress(NOT_STREAMED), 400),
    "spoilt": ("gzip", gzip.compress(NOT_STREAMED)[:-6] + b"spoilt", 400),
    "packed nonsense": ("gzip", gzip.compress(b"{not json"), 400),
    "unknown": ("br", OPAQUE, 415),
    "made up": ("made-up", NOT_STREAMED, 415),
    "one of two unknown": ("br, gzip", gzip.compress(OPAQUE), 415),
    "packed many times": (", ".join(["gzip"] * 9), OPAQUE, 415),
}


@pytest.mark.parametrize("what", WRONG)
def test_h20_encodings_that_cannot_be_read_are_refused_in_words(what: str) -> None:
    """A 400 for what is not what it says, a 415 for codings we do not know; no engine is asked."""
    coding, body, status = WRONG[what]

    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        async with running(engine) as gateway:
            got = await ask(gateway.port, post(body, PATH, f"Content-Encoding: {coding}"))
            assert got.status == status and b"invalid_request_error" in got.body
            assert not engine.asked and gateway.loads.totals(0) == (0, 0, 0, 0)
            assert (await ask(gateway.port, post(NOT_STREAMED))).status == 200

    run(test())
