"""Uploads hang or are taken for JSON; `/v1/realtime` is refused, loses its subprotocol, is cut while idle."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from tests.failures.support import at_once
from tests.support import Engine, Gateway, Peer, answers, ask, chunk, json_answer, parse, post, running
from tests.support_shared import run

UPLOADS = ("/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/edits", "/v1/files")
# What a file may hold that looks like something else to who reads it as JSON or as a form.
FILES = {
    "sound": bytes(range(256)) * 40,
    "random": os.urandom(50_000),
    "empty": b"",
    "JSON lines": b'{"model":"other","a":1}\n{"model":"gamma"}\n' * 50,
    "a form": b'\r\n--not\r\nContent-Disposition: form-data; name="model"\r\n\r\nother\r\n--not--\r\n',
    "dashes": b"\r\n--\r\n--b\r\n-- -" * 20,
}


def form(file: bytes, boundary: str, *, model: str | None = "alpha", last: bool = True) -> bytes:
    """A file and a model's name, in either order."""
    b = boundary.encode()
    parts = [b'Content-Disposition: form-data; name="file"; filename="model"\r\n\r\n' + file]
    if model is not None:
        parts.insert(
            1 if last else 0, b'Content-Disposition: form-data; name="model"\r\n\r\n' + model.encode()
        )
    return b"".join(b"--" + b + b"\r\n" + part + b"\r\n" for part in parts) + b"--" + b + b"--\r\n"


def upload(
    body: bytes, path: str, boundary: str, *, spelled: str | None = None, chunked: bool = False
) -> bytes:
    kind = spelled or f"multipart/form-data; boundary={boundary}"
    lines = [f"POST {path} HTTP/1.1", "Host: g", f"Content-Type: {kind}", "Connection: close"]
    lines.append("Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}")
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    return head + (chunk(body) + b"0\r\n\r\n" if chunked else body)


@pytest.mark.parametrize("read_bytes", [200, 8 << 20], ids=["streamed by", "read"])
def test_h26_other_endpoints_uploads_arrive_as_the_bytes_they_are(read_bytes: int) -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        cases = [
            (form(file, boundary, last=last), path, boundary, chunked)
            for file in FILES.values()
            for boundary in ("b", "----WebKitFormBoundary7MA4YWxkTrZu0gW", "x'()+_,-./:=?y")
            for path in UPLOADS
            for last in (True, False)
            for chunked in (True, False)
        ]

        async def one(body: bytes, path: str, boundary: str, chunked: bool) -> int:
            spelled = f'multipart/form-data; charset=utf-8; boundary="{boundary}"'
            return (await ask(gateway.port, upload(body, path, "", spelled=spelled, chunked=chunked))).status

        async with running(engine, limits=LimitsSpec(read_bytes=read_bytes)) as gateway:
            assert await at_once(one(*case) for case in cases) == [200] * len(cases)
            assert gateway.inflight() == 0
        arrived = sorted((peer.line.split()[1], peer.body) for peer in engine.asked)
        assert arrived == sorted((path, body) for body, path, _, _ in cases)
        kinds = {dict(peer.headers)["Content-Type"].split("boundary=")[0] for peer in engine.asked}
        assert kinds == {"multipart/form-data; charset=utf-8; "}

    run(test())


@pytest.mark.parametrize("own", [None, "tiny"], ids=["the client's name", "the engine's own name"])
@pytest.mark.parametrize("read_bytes", [300, 8 << 20], ids=["streamed by", "read"])
def test_h26_other_endpoints_an_uploads_model_is_found_in_its_form_and_not_in_its_file(
    read_bytes: int, own: str | None
) -> None:
    """And where the engine has another name for it, that part changes and no byte of the file."""

    async def test() -> None:
        alpha, other = Engine(answers(json_answer(b'"alpha"'))), Engine(answers(json_answer(b'"other"')))
        await alpha.start()
        await other.start()
        fleets = [
            FleetSpec("other", ("other",), True, (EngineSpec(0, other.url, kind="vllm"),), "least_load"),
            FleetSpec(
                "alpha", ("alpha",), False, (EngineSpec(1, alpha.url, kind="vllm", model=own),), "least_load"
            ),
        ]
        limits = LimitsSpec(read_bytes=read_bytes)
        async with running(alpha, other, fleets=fleets, limits=limits) as gateway:
            for how, file in FILES.items():
                for spelled in ("multipart/form-data; boundary=b-1", 'Multipart/Form-Data;boundary="b-1"'):
                    body = form(file, "b-1", last=False)
                    got = await ask(gateway.port, upload(body, UPLOADS[0], "", spelled=spelled))
                    assert got.body == b'"alpha"', how
                    assert alpha.asked[-1].body == form(file, "b-1", model=own or "alpha", last=False), how
            if read_bytes > 1_000_000:  # read to its end, a form may name its model last
                for how, file in FILES.items():
                    got = await ask(gateway.port, upload(form(file, "b-1"), UPLOADS[0], "b-1"))
                    assert got.body == b'"alpha"', how
                    assert alpha.asked[-1].body == form(file, "b-1", model=own or "alpha"), how
            unnamed = upload(form(FILES["JSON lines"], "b", model=None), UPLOADS[0], "b")
            assert (await ask(gateway.port, unnamed)).body == b'"other"'  # the default fleet's
            unknown = upload(form(b"x", "b", model="gamma", last=False), UPLOADS[0], "b")
            assert (await ask(gateway.port, unknown)).status == 404

    run(test())


@pytest.mark.parametrize(
    "kind", ["audio/mpeg", "image/png", "application/octet-stream", "text/plain", "application/x-ndjson"]
)
def test_h26_other_endpoints_answers_of_any_kind_pass_as_bytes(kind: str) -> None:
    data = bytes(range(256)) * 999

    async def test() -> None:
        async def script(peer: Peer) -> None:
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n"
            if peer.line.startswith("GET"):
                await peer.send(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            else:
                pieces = [chunk(data[at : at + 7_001]) for at in range(0, len(data), 7_001)]
                await peer.send(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode(), *pieces, b"0\r\n\r\n")

        async with running(Engine(script)) as gateway:
            for request in (post(b"{}", "/v1/audio/speech"), get("/v1/files/f/content")):
                got = await ask(gateway.port, request)
                assert (got.status, got.text, got.header("content-type")) == (200, data, [kind])

    run(test())


def get(path: str, *extra: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: g", "Connection: close", *extra, "", ""]).encode()


def test_h26_other_endpoints_pass_with_every_method() -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        async with running(engine) as gateway:
            asked = []
            for method in ("GET", "DELETE", "PUT", "PATCH"):
                for path in ("/v1/files/f-1", "/v1/batches/b/cancel", "/v1/responses/r?include=x"):
                    assert (await ask(gateway.port, get(path, method=method), 30)).status == 200
                    asked.append(f"{method} {path} HTTP/1.1")
        assert [peer.line for peer in engine.asked] == asked

    run(test())


# WebSocket

OFFER = ("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
PROTOCOLS = "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.x"
ACCEPT = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def opening(path: str = "/v1/realtime?model=m", *extra: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: g", "Connection: Upgrade", *OFFER, PROTOCOLS, *extra, "", ""]
    return "\r\n".join(lines).encode()


async def echo(peer: Peer) -> None:
    """Take the first subprotocol, send back what comes; at a close frame, close with 1011 and leave."""
    lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", ACCEPT]
    await peer.send("\r\n".join([*lines, "Sec-WebSocket-Protocol: realtime", "", ""]).encode())
    while data := await peer.reader.read(65_536):
        if data[0] == 0x88:
            await peer.send(b"\x88\x02\x03\xf3")
            peer.close()
            return
        await peer.send(data)


Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]


@asynccontextmanager
async def opened(gateway: Gateway, request: bytes) -> AsyncIterator[Opened]:
    """A connection on which this was asked, and the head of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        writer.write(request)
        yield reader, writer, await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
    finally:
        writer.close()


def test_h26_other_endpoints_an_upgrade_is_answered_in_words_or_done_and_never_hangs() -> None:
    """Every spelling, of a protocol we relay or not, on a path we relay or not; then others are served."""

    async def test() -> None:
        async def refuse(peer: Peer) -> None:
            await peer.send(json_answer(b'{"error":{"message":"no"}}', "404 Not Found"))

        other = opening().replace(b"websocket", b"made-up/1.0")
        no_key = opening().replace(b"Sec-WebSocket-Key", b"X-Key")
        connect = b"CONNECT engine:443 HTTP/1.1\r\nHost: engine:443\r\n\r\n"
        offers = [opening(), opening("/refused"), opening("/v1/chat/completions"), other, no_key, connect]
        async with running(Engine(refuse)) as gateway:
            for offer in offers:
                async with opened(gateway, offer) as (reader, _, head):
                    assert int(head.split()[1]) in (400, 404, 405, 426, 501), head
                    got = parse(head + await asyncio.wait_for(reader.read(), 30))
                    assert b'"error"' in got.text and got.is_whole
            assert gateway.inflight() == 0
            assert (await ask(gateway.port, post())).status == 404

    run(test())


def test_h26_other_endpoints_a_websocket_passes_both_ways_with_its_subprotocol_and_close_code() -> None:
    async def test() -> None:
        engine = Engine(echo)
        async with running(engine) as gateway:
            async with opened(gateway, opening()) as (reader, writer, head):
                assert head.startswith(b"HTTP/1.1 101")
                got = parse(head)
                assert got.header("sec-websocket-protocol") == ["realtime"]
                assert got.header("sec-websocket-accept") == [ACCEPT.split(": ")[1]]
                assert got.header("upgrade") == ["websocket"]
                assert got.header("connection")[0].lower() == "upgrade"
                for size in (1, 125, 126, 65_535, 300_000):
                    frame = b"\x82" + os.urandom(size).replace(b"\x88", b"")  # the end
                    writer.write(frame)
                    assert await asyncio.wait_for(reader.readexactly(len(frame)), 30) == frame
                writer.write(b"\x88\x80abcd")
                assert await asyncio.wait_for(reader.read(), 30) == b"\x88\x02\x03\xf3"  # 1011, then the end
            sent = {name.lower(): value for name, value in engine.asked[0].headers}
            assert sent["sec-websocket-protocol"] == PROTOCOLS.split(": ")[1]
            assert sent["sec-websocket-key"] and sent["upgrade"] == "websocket"
            async with asyncio.timeout(30):
                while gateway.inflight():
                    await asyncio.sleep(0.01)

    run(test())


@pytest.mark.parametrize("who", ["client", "engine"])
def test_h26_other_endpoints_when_one_side_of_a_websocket_is_lost_so_is_the_other(who: str) -> None:
    async def test() -> None:
        ended = asyncio.Event()

        async def script(peer: Peer) -> None:
            lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", ACCEPT]
            await peer.send("\r\n".join([*lines, "", ""]).encode())
            if who == "engine":
                peer.reset()
            elif await peer.left():
                ended.set()

        async with running(Engine(script)) as gateway:
            async with opened(gateway, opening()) as (reader, writer, head):
                assert head.startswith(b"HTTP/1.1 101")
                if who == "client":
                    writer.transport.abort()
                    await asyncio.wait_for(ended.wait(), 30)
                else:
                    try:
                        # No close frame is made up: 1005 and 1006 must never be in one (RFC 6455 7.4.1).
                        assert await asyncio.wait_for(reader.read(), 30) == b""
                    except ConnectionError:
                        pass
            async with asyncio.timeout(30):
                while gateway.inflight():
                    await asyncio.sleep(0.01)

    run(test())
