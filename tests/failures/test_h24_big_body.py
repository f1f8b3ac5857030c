"""Requests with pictures are refused, cut or held five times over; clients wait a second before sending."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from tests.connections import listening
from tests.failures.support import at_once
from tests.support import LAST, Answered, Engine, answers, ask, chunk, json_answer, parse, post, running
from tests.support_shared import run

TARGET = "/v1/chat/completions"
EXPECT = "Expect: 100-continue"


def picture(size: int) -> bytes:
    """A request of `size` bytes, most of them a picture in base64; its model's name comes last."""
    start = b'{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;'
    start, end = start + b"base64,", b'"}}]}],"model":"m"}'
    return start + b"A" * (size - len(start) - len(end)) + end


def as_chunks(body: bytes, *extra: str, size: int = 65_536) -> bytes:
    head = ["POST /v1/chat/completions HTTP/1.1", "Host: g", "Content-Type: application/json"]
    head += ["Transfer-Encoding: chunked", "Connection: close", *extra]
    pieces = b"".join(chunk(body[at : at + size]) for at in range(0, len(body), size))
    return "\r\n".join(head).encode() + b"\r\n\r\n" + pieces + LAST


def final(got: Answered) -> Answered:
    """The answer after any `100 Continue`."""
    return parse(got.raw.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n"))


@pytest.mark.parametrize("read_bytes", [1_000, 100_000, 1 << 20, 8 << 20])
def test_h24_big_body_arrives_whole_whether_it_is_read_or_streamed_by(read_bytes: int) -> None:
    """Around every limit, with a length and in chunks, waiting to be asked for it and not."""

    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        near = [limit + n for limit in (16_384, 65_536, read_bytes) for n in (-1, 0, 1)]
        sizes = [size for size in (300, 2_000_001, *near) if size < 3 << 20]
        bodies = [picture(size) for size in sorted(set(sizes)) if size > 250]
        assert json.loads(bodies[0])["model"] == "m"

        async def one(body: bytes, chunked: bool, extra: list[str]) -> int:
            request = as_chunks(body, *extra) if chunked else post(body, TARGET, *extra)
            got = await ask(gateway.port, request)
            assert got.raw.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200") == bool(extra)
            return final(got).status

        cases = [(body, how, extra) for body in bodies for how in (False, True) for extra in ([], [EXPECT])]
        async with running(engine, limits=LimitsSpec(read_bytes=read_bytes)) as gateway:
            assert await at_once((one(*case) for case in cases), 8) == [200] * len(cases)
            assert gateway.inflight() == 0 and gateway.loads.totals(0) == (0, 0, 0, 0)
        arrived = sorted(len(peer.body) for peer in engine.asked)
        assert arrived == sorted(len(body) for body, _, _ in cases)
        assert {peer.body for peer in engine.asked} == set(bodies)

    run(test())


@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "in chunks"])
@pytest.mark.parametrize("read_bytes", [1_000, 1 << 20], ids=["streamed by", "read"])
def test_h24_big_body_has_one_limit_and_a_413_in_words_beyond_it(chunked: bool, read_bytes: int) -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        limits = LimitsSpec(body_bytes=100_000, read_bytes=read_bytes)
        async with running(engine, limits=limits) as gateway:
            for size in (99_999, 100_000, 100_001, 101_000, 400_000, 20 << 20):
                body = picture(size)
                got = await ask(gateway.port, as_chunks(body) if chunked else post(body))
                if size <= 100_000:
                    assert got.status == 200 and engine.asked[-1].body == body
                else:
                    error = json.loads(got.text)["error"]
                    assert got.status == 413 and "100000 bytes" in error["message"], size
            await until_idle(gateway.port)
            assert gateway.inflight() == 0

    run(test())


async def until_idle(port: int) -> None:
    """One more request is served: nothing of the ones before is left in the way."""
    assert (await ask(port, post(b'{"model":"m"}'))).status == 200


def test_h24_big_body_is_asked_for_at_once_or_refused_at_once() -> None:
    """A client that waits for `100 Continue` gets it, or a final status, before it has sent a byte."""

    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        body = picture(50_000)
        async with running(engine, limits=LimitsSpec(body_bytes=100_000)) as gateway:
            for target in (TARGET, "/v1/files", "/v1/audio/transcriptions", "/refused"):
                for length in (len(body), 200_000):
                    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                    head = post(b"", target, EXPECT, f"Content-Length: {length}")
                    writer.write(head.replace(b"Content-Length: 0\r\n", b""))
                    first = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
                    if first.startswith(b"HTTP/1.1 100"):
                        writer.write(body + b"x" * (length - len(body)))
                        first = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
                        wanted = b"200" if length == len(body) else b"413"
                    else:
                        wanted = b"404" if target == "/refused" else b"413"
                    assert first.split()[1] == wanted, (target, length)
                    writer.close()

    run(test())


def test_h24_big_body_streamed_by_is_routed_by_the_model_that_its_beginning_names() -> None:
    async def test() -> None:
        one, other = Engine(answers(json_answer(b'"one"'))), Engine(answers(json_answer(b'"other"')))
        await one.start()
        await other.start()
        fleets = [
            FleetSpec("alpha", ("alpha",), False, (EngineSpec(0, one.url, kind="vllm"),), "least_load"),
            FleetSpec("beta", ("beta",), True, (EngineSpec(1, other.url, kind="vllm"),), "least_load"),
        ]
        start = b'{"model":"alpha","messages":[{"role":"user","content":"'
        body = start + b"A" * (2 << 20) + b'"}]}'
        async with running(one, other, fleets=fleets, limits=LimitsSpec(read_bytes=100_000)) as gateway:
            got = [await ask(gateway.port, request) for request in (post(body), as_chunks(body))]
        assert [answer.body for answer in got] == [b'"one"'] * 2
        assert [peer.body for peer in one.asked] == [body] * 2 and not other.asked

    run(test())


@asynccontextmanager
async def swallowing(seen: list[tuple[int, str]]) -> AsyncIterator[str]:
    """An engine that keeps only length and digest of what it is sent."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            found = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
            left = length = int(found[0].split(b":")[1]) if found else 0
            digest = hashlib.blake2b()
            while left:
                piece = await reader.read(min(left, 65_536))
                if not piece:
                    return
                digest.update(piece)
                left -= len(piece)
            if length:
                seen.append((length, digest.hexdigest()))
            writer.write(json_answer(b"{}"))

    async with listening(serve) as port:
        yield f"http://127.0.0.1:{port}"


async def upload(port: int, pieces: Iterable[bytes], size: int) -> int:
    """Send a body piece by piece, as fast as it is taken; the status of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {TARGET} HTTP/1.1\r\nHost: g\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    status = parse(await asyncio.wait_for(reader.read(), 30)).status
    writer.close()
    return status


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize(("size", "many"), [(100 << 20, 1), (30 << 20, 12)])
def test_h24_big_body_is_never_held_beyond_what_is_read_for_routing(size: int, many: int) -> None:
    """100 MB, and a dozen of 30 MB at once: memory grows by what `read_bytes` allows, not with the size."""

    async def test() -> None:
        read_bytes = 1 << 20
        piece = b'{"model":"m","x":"' + b"A" * (65_536 - 18)
        pieces = [piece] + [b"A" * 65_536] * (size // 65_536 - 1)
        digest = hashlib.blake2b()
        for one in pieces:
            digest.update(one)
        seen: list[tuple[int, str]] = []
        async with swallowing(seen) as url:
            specs = (EngineSpec(0, url, kind="vllm"),)
            fleets = [FleetSpec(None, (), True, specs, "least_load")]
            async with running(fleets=fleets, limits=LimitsSpec(read_bytes=read_bytes)) as gateway:
                assert await upload(gateway.port, [b"{}"], 2) == 200
                before = most = resident_bytes()

                async def watch() -> None:
                    nonlocal most
                    while True:
                        most = max(most, resident_bytes())
                        await asyncio.sleep(0.002)

                watching = asyncio.get_running_loop().create_task(watch())
                uploads = (upload(gateway.port, pieces, size) for _ in range(many))
                assert await asyncio.gather(*uploads) == [200] * many
                watching.cancel()
        assert seen[1:] == [(size, digest.hexdigest())] * many
        assert most - before < (8 << 20) + many * 4 * read_bytes

    run(test())


def test_h24_big_body_within_the_default_limits_is_read_for_routing_and_arrives_the_same() -> None:
    """30 MB of picture in one request, default limits: relayed; just under `read_bytes`: read and relayed."""

    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        async with running(engine) as gateway:
            for size in ((8 << 20) - 1, 30 << 20):
                body = picture(size)
                assert final(await ask(gateway.port, post(body, TARGET, EXPECT))).status == 200
                assert engine.asked[-1].body == body

    run(test())
