"""Network reads end anywhere: inside a character, an event, a chunk's size line, a header."""

import asyncio
from pathlib import Path

import pytest

from analysis.measure import measure
from tests.failures.mirrored import content, mirrored
from tests.failures.support import ask_each, at_once, last_counts, number, numbered, told
from tests.support import (
    CHAT,
    FINISH,
    LAST,
    ROLE,
    SSE_HEAD,
    TOKEN,
    Engine,
    Peer,
    chunk,
    event,
    running,
    until,
)
from tests.support_shared import run

SAID = "café 한국어 🙂"
USAGE = '{"id":"1","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}}'
BODY = (
    b": hello\n\n"
    + "".join(
        f"data: {one}\n\n" for one in (ROLE, TOKEN.replace("tok", SAID), FINISH, USAGE, "[DONE]")
    ).encode()
)
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
ANSWERS = {
    "chunks": SSE_HEAD + b"".join(chunk(BODY[at : at + 50]) for at in range(0, len(BODY), 50)) + LAST,
    "a length": EVENTS + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY,
    "the connection's end": EVENTS + b"\r\n" + BODY,
}
framed = pytest.mark.parametrize("framing", ANSWERS)


@framed
def test_h01_cut_anywhere_in_the_answer_gives_the_client_the_same_bytes(framing: str) -> None:
    """Over every byte of the answer, its head and framing included."""
    whole = ANSWERS[framing]

    async def script(peer: Peer) -> None:
        cut = number(peer)
        if cut:
            await peer.send(whole[:cut])
            await asyncio.sleep(0.002)
        await peer.send(whole[cut:])
        if framing == "the connection's end":
            peer.close()

    async def test() -> None:
        async with running(Engine(script)) as gateway, told(gateway.run_dir) as heard:
            for cut, got in enumerate(await ask_each(gateway.port, len(whole))):
                assert (got.status, got.is_whole, got.text) == (200, True, BODY), f"cut at byte {cut}"
            assert (await last_counts(gateway, heard)).get("complete") == len(whole)

    run(test())


@framed
@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_h01_cut_anywhere_and_everywhere_gives_the_client_the_same_bytes(framing: str, step: int) -> None:
    whole = ANSWERS[framing]

    async def script(peer: Peer) -> None:
        for at in range(0, len(whole), step):
            await peer.send(whole[at : at + step])
            await asyncio.sleep(0)
        if framing == "the connection's end":
            peer.close()

    async def test() -> None:
        async with running(Engine(script)) as gateway:
            for got in await ask_each(gateway.port, 4):
                assert (got.status, got.is_whole, got.text) == (200, True, BODY)

    run(test())


def test_h01_cut_anywhere_an_answer_that_ends_in_single_bytes_is_counted_complete() -> None:
    """Its ending is judged by its bytes, not by its last few reads."""
    body = BODY.replace(b"data: [DONE]\n\n", b"")  # the finish reason then stands well before the end

    async def script(peer: Peer) -> None:
        start = len(body) - (len(USAGE) + len(FINISH)) if number(peer) % 2 else 0
        await peer.send(SSE_HEAD, *([chunk(body[:start])] if start else []))
        for at in range(start, len(body)):
            await peer.send(chunk(body[at : at + 1]))
            await asyncio.sleep(0.0005)
        await peer.send(LAST)

    async def test() -> None:
        async with running(Engine(script)) as gateway, told(gateway.run_dir) as heard:
            assert all(got.text == body for got in await ask_each(gateway.port, 8))
            assert (await last_counts(gateway, heard)).get("requests") == 8
            assert heard.counts.get("complete") == 8

    run(test())


def test_h01_cut_anywhere_the_first_token_is_seen() -> None:
    """The load of a prompt is released at its first token, through whichever byte the reads are cut."""
    token = b"data: " + TOKEN.encode() + b"\n\n"

    async def test() -> None:
        speak = asyncio.Event()
        finish = asyncio.Event()

        async def script(peer: Peer) -> None:
            cut = number(peer)
            await peer.send(SSE_HEAD, event(ROLE))
            await speak.wait()
            if cut:
                await peer.send(chunk(token[:cut]))
                await asyncio.sleep(0.01)
            await peer.send(chunk(token[cut:]))
            await finish.wait()
            await peer.send(event(FINISH), LAST)

        async def one(cut: int) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            prompt = CHAT.replace(b'"hi"', b'"' + b"%04d " % cut * 200 + b'"')
            writer.write(numbered(cut, prompt))
            got = await reader.read(-1)
            writer.close()
            return got

        cuts = range(len(token))
        async with running(Engine(script)) as gateway:
            asking = asyncio.gather(*(one(cut) for cut in cuts))
            await until(lambda: gateway.inflight() == len(cuts))
            assert gateway.loads.totals(0)[1] > 0  # prompts wait
            speak.set()
            try:
                await until(lambda: gateway.loads.totals(0)[1] == 0, 30)
                assert gateway.inflight() == len(cuts)
            finally:
                finish.set()
                await asking

    run(test())


def test_h01_cut_anywhere_in_the_request_the_engine_gets_it_whole() -> None:
    """Over every byte of a request with a body in chunks, and of one with a length."""
    body = CHAT.replace(b"hi", SAID.encode())
    head = b"POST /v1/chat/completions?%b HTTP/1.1\r\nHost: g\r\nConnection: close\r\n"
    requests = [
        head % b"length" + b"Content-Length: %d\r\n\r\n" % len(body) + body,
        head % b"chunks" + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(body[:9]) + chunk(body[9:]) + LAST,
    ]

    async def test() -> None:
        async def script(peer: Peer) -> None:
            await peer.send(ANSWERS["a length"] if peer.body == body else b"HTTP/1.1 400 No\r\n\r\n")

        async def one(request: bytes, cut: int) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(request[:cut])
            await asyncio.sleep(0.002)
            writer.write(request[cut:])
            got = await asyncio.wait_for(reader.read(-1), 20)
            writer.close()
            return got

        async with running(Engine(script)) as gateway:
            cases = [(request, cut) for request in requests for cut in range(1, len(request))]
            got = await at_once(one(*case) for case in cases)
        assert [cut for (_, cut), one in zip(cases, got, strict=True) if not one.endswith(BODY)] == []

    run(test())


def test_h01_cut_anywhere_the_mirror_reads_the_same_text_and_counts(tmp_path: Path) -> None:
    """Over every byte of an arm's answer: the text is whole and the usage counter reads 3 each time."""

    async def test() -> None:
        cases = [(BODY[:cut], BODY[cut:]) for cut in range(len(BODY))]
        for cut, pair in enumerate(await mirrored(tmp_path, cases)):
            (answer,) = pair["answers"]
            read = content(answer)
            assert [choice.text for choice in read.choices] == [SAID], f"cut at byte {cut}"
            assert (read.error, read.finished, len(read.token_events)) == (None, True, 1)
            measured = measure(pair).answer("control")
            assert measured is not None and (measured.completion_tokens, measured.fault) == (3, None)

    run(test())
