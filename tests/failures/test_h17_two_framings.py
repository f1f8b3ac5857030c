"""A message that two readers frame differently hides a second one: past authentication and limits."""

import asyncio
import re

import pytest

from gateway.spec import LimitsSpec
from tests.failures.support import NOT_STREAMED, at_once, number, numbered
from tests.support import Answered, Engine, Peer, answers, ask, json_answer, parse, post, running
from tests.support_shared import run

SMUGGLED = b"0\r\n\r\nGET /v1/smug HTTP/1.1\r\nHost: x\r\n\r\n"
LINE = b"POST /v1/chat/completions HTTP/1.1\r\n"
START = LINE + b"Host: x\r\n"
FIELDS = [
    b"Content-Length: 5\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    b"content-length: 5\r\nX: y\r\ntRANSFER-eNCODING: cHUNKED",
    b"Content-Length: 5\r\nContent-Length: 6",
    b"Content-Length: 5\r\nX: y\r\ncontent-length: 38",
    b"Content-Length: 5, 6",
    b"Content-Length: 5 6",
    b"Content-Length: +5",
    b"Content-Length: -5",
    b"Content-Length: 0x5",
    b"Content-Length: 5.0",
    b"Content-Length: 5e0",
    b"Content-Length: \xef\xbc\x95",
    b"Content-Length: 5\x00",
    b"Content-Length: 99999999999999999999999999",
    b"Content-Length: 18446744073709551621",
    b"Content-Length : 5",
    b"Content-Length\t: 5",
    b"Content-Length\x0b: 5",
    b" Content-Length: 5",
    b"Content-Length: 5\r\n 6",
    b"X: y\r\n Transfer-Encoding: chunked",
    b"Transfer-Encoding:\r\n chunked",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding: chunked-x",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: chunked, gzip",
    b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding: identity",
    b"Transfer-Encoding: identity, chunked",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    b'Transfer-Encoding: "chunked"',
    b"Transfer-Encoding: chunked;x=1",
    b"Transfer-Encoding:\x0bchunked",
    b"Transfer-Encoding: \x00chunked",
    b"Transfer-Encoding : chunked",
    b"Transfer Encoding: chunked",
    b"Content-Length: 5\nTransfer-Encoding: chunked",
    b"X: y\nContent-Length: 5",
    b"X: y\rContent-Length: 5",
    b"X: y\r\r\nContent-Length: 5",
    b"Content-Length: 5\r\nX\r\nY: z",
    b"Content-Length: 5\r\n: z",
    b"Content-Length: 5\r\nHost: y",
]
LINES = [
    LINE.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    LINE + b"Content-Length: 5\r\n\r\n",  # no Host
    LINE.replace(b"HTTP/1.1", b"HTTP/1.2") + b"Host: x\r\nContent-Length: 5\r\n\r\n",
    LINE.replace(b"HTTP/1.1", b"HTTP/2.0") + b"Host: x\r\nContent-Length: 5\r\n\r\n",
    LINE.replace(b"HTTP/1.1", b"http/1.1") + b"Host: x\r\nContent-Length: 5\r\n\r\n",
    LINE.replace(b" HTTP/1.1", b"  HTTP/1.1 x") + b"Host: x\r\nContent-Length: 5\r\n\r\n",
    LINE.replace(b"\r\n", b"\n") + b"Host: x\r\nContent-Length: 5\r\n\r\n",
    LINE.replace(b"POST ", b"PO ST ") + b"Host: x\r\nContent-Length: 5\r\n\r\n",
    START + b"Content-Length: 5\n\n",
    START + b"Content-Length: 5\r\n\n",
]
CHUNKED = START + b"Transfer-Encoding: chunked\r\n\r\n"
CHUNKS = [
    b"5\r\nhelloXX",
    b"5\r\nhello0\r\n\r\n",
    b"5\r\nhello\n",
    b"5\nhello\r\n",
    b"5\r\nhello\r\r\n",
    b"-5\r\nhello\r\n",
    b"+5\r\nhello\r\n",
    b"0x5\r\nhello\r\n",
    b" 5\r\nhello\r\n",
    b"5 \r\nhello\r\n",
    b"5\t\r\nhello\r\n",
    b"5,6\r\nhello\r\n",
    b"5.\r\nhello\r\n",
    b"g\r\nhello\r\n",
    b"\r\nhello\r\n",
    b"FFFFFFFFFFFFFFFFF5\r\nhello\r\n",
    b"10000000000000005\r\nhello\r\n",
    b"5;\nx\r\nhello\r\n",
    b"5;x\x00\r\nhello\r\n",
    b"5;x=\x0b\r\nhello\r\n",
    b"0\r\nX: y\n\r\n",
    b"0\r\n X: y\r\n\r\n",
    b"0\r\nX : y\r\n\r\n",
    b"0\r\n\n",
    b"0\n\r\n",
]
PROBES = [START + fields + b"\r\n\r\n" for fields in FIELDS] + LINES


async def ask_in_two(port: int, request: bytes, cut: int) -> Answered:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request[:cut])
        await asyncio.sleep(0.001 if cut else 0)
        writer.write(request[cut:])
        if not request.endswith(SMUGGLED):
            writer.write_eof()
        try:
            async with asyncio.timeout(30):
                raw = await reader.read(-1)
        except ConnectionResetError:
            raw = b""
    finally:
        writer.close()
    return parse(raw)


def refused(got: Answered) -> bool:
    """One answer, an error in words, and then the end: whatever followed is not read."""
    answered = re.findall(rb"HTTP/1.1 (\d{3})", got.raw)
    return answered in ([b"400"], [b"501"], [b"505"]) and b"invalid_request" in got.body


def test_h17_two_framings_of_a_request_are_refused_however_it_is_cut() -> None:
    """At any byte, so that no state between two reads lets one through."""
    whole = [probe + SMUGGLED for probe in PROBES]

    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        async with running(engine) as gateway:
            cases = [(one, cut) for one in whole for cut in range(0, len(one) - len(SMUGGLED) + 2, 5)]
            got = await at_once((ask_in_two(gateway.port, *case) for case in cases), 100)
        bad = {case[0]: one.raw for case, one in zip(cases, got, strict=True) if not refused(one)}
        assert bad == {}
        assert not engine.asked

    run(test())


@pytest.mark.parametrize("read_bytes", [1 << 20, 2], ids=["read", "gone by"])
def test_h17_two_framings_of_a_chunk_are_refused_however_it_is_cut(read_bytes: int) -> None:
    """Also where the body goes by unread: the engine then never gets a whole request."""
    whole = [
        CHUNKED + body + SMUGGLED for sound in (b"", b"3\r\nabc\r\n") for body in (sound + c for c in CHUNKS)
    ]

    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        async with running(engine, limits=LimitsSpec(read_bytes=read_bytes)) as gateway:
            cases = [
                (one, cut) for one in whole for cut in (0, *range(len(CHUNKED), len(one) - len(SMUGGLED), 3))
            ]
            got = await at_once((ask_in_two(gateway.port, *case) for case in cases), 100)
        bad = {case[0]: one.raw for case, one in zip(cases, got, strict=True) if b"200 OK" in one.raw}
        assert bad == {}
        assert not engine.asked

    run(test())


def test_h17_two_framings_never_reach_an_engine_even_where_a_request_is_sound() -> None:
    """Each request the engine gets has one framing, and it is ours."""
    sound = [
        START + b"Content-Length: 5\r\n\r\nhello",
        START + b"Content-Length:\t 5 \r\n\r\nhello",
        START + b"Content-Length: 00005\r\n\r\nhello",
        START + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        START + b"Transfer-Encoding: Chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: trailer\r\n\r\n",
        START + b"Connection: content-length\r\nContent-Length: 5\r\n\r\nhello",
        START + b"Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"\r\n" + START + b"Content-Length: 5\r\n\r\nhello",
    ]

    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        for read_bytes in (1 << 20, 2):
            async with running(engine, limits=LimitsSpec(read_bytes=read_bytes)) as gateway:
                for request in sound:
                    closing = request.replace(b"Host: x\r\n", b"Host: x\r\nConnection: close\r\n")
                    body = closing.replace(b"hello", b"{   }").replace(b"/chat/completions", b"/x")
                    assert (await ask(gateway.port, body)).status == 200, request
        assert len(engine.asked) == 2 * len(sound)
        for peer in engine.asked:
            names = [name.lower() for name, _ in peer.headers]
            assert names.count("content-length") + names.count("transfer-encoding") == 1
            assert peer.body == b"{   }" and names.count("host") == 1

    run(test())


POISON = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON"
OK = b"HTTP/1.1 200 OK\r\n"
ANSWERS = [
    OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    OK + b"Content-Length: 5\r\nContent-Length: 0\r\n\r\nhello",
    OK + b"Content-Length: 5, 0\r\n\r\nhello",
    OK + b"Content-Length: +5\r\n\r\nhello",
    OK + b"Content-Length: -5\r\n\r\nhello",
    OK + b"Content-Length: 0x5\r\n\r\nhello",
    OK + b"Content-Length : 5\r\n\r\nhello",
    OK + b"Content-Length: 5\r\n 0\r\n\r\nhello",
    OK + b"Content-Length: 18446744073709551621\r\n\r\nhello",
    OK + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    OK + b"X: y\nContent-Length: 5\r\n\r\nhello",
    OK + b"X: y\rContent-Length: 5\r\n\r\nhello",
    OK + b"X: \x00\r\nContent-Length: 5\r\n\r\nhello",
    OK + b"Content-Length: 5\n\nhello",
    OK.replace(b"\r", b"") + b"Content-Length: 5\r\n\r\nhello",
    OK.replace(b"1.1", b"2.0") + b"Content-Length: 5\r\n\r\nhello",
    OK.replace(b"200", b"20") + b"Content-Length: 5\r\n\r\nhello",
    OK.replace(b"200", b"2000") + b"Content-Length: 5\r\n\r\nhello",
    OK + b"Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
]
# Sound answers, with more behind them than they said.
SURPLUS = [
    OK + b"Content-Length: 5\r\n\r\nhello",
    OK + b"Content-Length: 0\r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 103 Hints\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\nhello",
]


def test_h17_two_framings_of_an_answer_are_a_502_and_what_follows_is_never_the_next_answer() -> None:
    """Of engines too: cut at any byte, nothing behind an answer is taken for the answer of somebody else."""
    cases = [(answer + POISON, cut) for answer in ANSWERS for cut in range(0, len(answer) + 12, 3)]
    bad = len(cases)
    # What follows comes with the answer's last byte: later, it could not be told from an answer to come.
    cases += [(answer + POISON, cut) for answer in SURPLUS for cut in range(0, len(answer), 3)]

    async def test() -> None:
        async def script(peer: Peer) -> None:
            if "?" not in peer.line:
                await peer.send(json_answer(b'"sound"'))
                return
            answer, cut = cases[number(peer)]
            await peer.send(answer[:cut])
            await asyncio.sleep(0.001 if cut else 0)
            await peer.send(answer[cut:])

        async def one(n: int) -> Answered:
            got = await ask(gateway.port, numbered(n, NOT_STREAMED))
            after = await ask(gateway.port, post(NOT_STREAMED))
            assert after.body == b'"sound"', cases[n]
            return got

        async with running(Engine(script)) as gateway:
            answered = await at_once((one(n) for n in range(len(cases))), 50)
            for n, got in enumerate(answered):
                assert b"POISON" not in got.raw, cases[n]
                if n < bad:
                    framed_wrongly = got.status == 200 and not got.is_whole  # its chunks broke after the head
                    assert got.status == 502 or framed_wrongly, cases[n]
                else:
                    assert got.status in (200, 204, 304) and (got.is_whole or got.status == 304), cases[n]
            assert gateway.loads.totals(0) == (0, 0, 0, 0)

    run(test())
