"""Headers copied from one hop to the next: a wrong length, one cookie of five, somebody else's framing."""

import asyncio
import json

import pytest

from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from tests.failures.support import NOT_STREAMED, PATH, at_once, number, numbered
from tests.support import (
    CHAT,
    FINISH,
    LAST,
    SSE_HEAD,
    TOKEN,
    Engine,
    Peer,
    answers,
    ask,
    chunk,
    event,
    json_answer,
    post,
    running,
    streams,
)
from tests.support_shared import run

# End-to-end: they pass with their case, order and repeats, whatever stands between them.
PASSING = [
    ["Set-Cookie: a=1", "X-Tag: one", "Set-Cookie: b=2; Expires=Wed, 01 Jan 2031 00:00:00 GMT", "X-Tag: two"],
    [f"Set-Cookie: c{n}={n}" for n in range(20)],
    ["set-cookie: a=1", "SET-COOKIE: a=2", "Set-Cookie: a=1"],
    ["x-ratelimit-limit-requests: 5", "OpenAI-Processing-Ms: 12"],
    ["Server: uvicorn", "Date: Wed, 01 Jan 2031 00:00:00 GMT", "ETag: W/\"x\"", "Vary: Accept, Origin"],
    ["WWW-Authenticate: Bearer realm=\"x\"", "WWW-Authenticate: Basic"],
    ["Content-Language: de", "Content-Disposition: inline; filename=\"ä.json\"".encode().decode("latin-1")],
    ["X-Empty:", "X-Blank: ", "X-Commas: a, b,,c", "X-Colons: a:b:c"],
    ["Access-Control-Expose-Headers: X-Tag", "Link: </a>; rel=preload", "Link: </b>"],
    ["Cache-Control: no-store", "Age: 0", "Warning: 199 - x", "Retry-After: 3"],
    ["X_Under_Score: 1", "X.Dot: 2", "X!#$%&'*+-^`|~: 3"],
    [f"X-{n}: {n}" for n in range(90)],
]  # fmt: skip
# Hop by hop: what is dropped of them, by its index.
HOPS = [
    (["Keep-Alive: timeout=5", "X: 1"], {0}),
    (["Proxy-Connection: keep-alive", "X: 1"], {0}),
    (["Proxy-Authenticate: Basic", "Trailer: X", "TE: trailers", "X: 1"], {0, 1, 2}),
    (["Connection: X-Hop", "X-Hop: 1", "X: 1"], {0, 1}),
    (["X-Hop: 1", "connection: x-hop", "X: 1"], {0, 1}),
    (["Connection: A-Hop,  B-Hop ,C-HOP", "a-hop: 1", "B-Hop: 2", "C-Hop: 3", "c-hop: 4"], {0, 1, 2, 3, 4}),
    (["Connection: A-Hop", "A-Hop: 1", "Connection: B-Hop", "B-Hop: 1", "X: 1"], {0, 1, 2, 3}),
    (["Connection: keep-alive, A-Hop", "A-Hop: 1", "X: 1"], {0, 1}),
    (["Connection: ,, A-Hop,", "A-Hop: 1", "X: 1"], {0, 1}),
]  # fmt: skip
OURS = {"content-length", "transfer-encoding", "connection", "x-request-id"}


def told(headers: list[tuple[str, str]], without: set[str]) -> list[str]:
    """Fields as they were sent, without those of our own."""
    return [f"{name}: {value}" for name, value in headers if name.lower() not in without]


def as_sent(fields: list[str]) -> list[str]:
    return [f"{name}: {value.strip()}" for name, _, value in (one.partition(":") for one in fields)]


RESPONSES = [(fields, as_sent(fields)) for fields in PASSING] + [
    (fields, as_sent([one for n, one in enumerate(fields) if n not in dropped])) for fields, dropped in HOPS
]
FRAMINGS = ("length", "chunks", "the connection's end", "a stream")


@pytest.mark.parametrize("framing", FRAMINGS)
def test_h18_header_copying_from_engines_keeps_names_order_and_repeats(framing: str) -> None:
    """Hop-by-hop fields end here, and the framing is one, and ours; for HTTP/1.1 and 1.0 clients."""

    async def script(peer: Peer) -> None:
        fields = "".join(f"{one}\r\n" for one in RESPONSES[number(peer) // 2][0]).encode("latin-1")
        head = {
            "length": b"Content-Length: 2\r\n",
            "chunks": b"Transfer-Encoding: chunked\r\n",
            "the connection's end": b"",
            "a stream": b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n",
        }[framing]
        body = {"length": b"{}", "the connection's end": b"{}", "chunks": chunk(b"{}") + LAST}
        await peer.send(b"HTTP/1.1 200 OK\r\n" + fields + head + b"\r\n")
        await peer.send(body.get(framing, event(TOKEN) + event(FINISH) + LAST))
        if framing == "the connection's end":
            peer.close()

    async def test() -> None:
        async with running(Engine(script)) as gateway:

            async def one(n: int) -> None:
                request = numbered(n)
                if n % 2:
                    request = request.replace(b"HTTP/1.1", b"HTTP/1.0")
                got = await ask(gateway.port, request)
                expected = RESPONSES[n // 2][1]
                # Of a stream, proxies further on may be told not to buffer it.
                more = {"content-type", "x-accel-buffering"} if framing == "a stream" else set()
                seen = told(got.headers, OURS | more)
                if framing == "a stream" and "Cache-Control: no-cache" in seen:
                    seen.remove("Cache-Control: no-cache")
                assert seen == expected
                lengths, codings = got.header("content-length"), got.header("transfer-encoding")
                if framing == "length":
                    assert (lengths, codings) == (["2"], [])
                elif n % 2:
                    assert (lengths, codings) == ([], [])
                else:
                    assert (lengths, codings) == ([], ["chunked"])
                assert got.header("connection") in ([], ["close"])
                assert got.is_whole and got.text.endswith(b"{}" if framing != "a stream" else b"\n\n")

            await at_once(one(n) for n in range(2 * len(RESPONSES)))

    run(test())


REQUESTS = [
    *[(fields, as_sent(fields)) for fields in PASSING],
    *[
        (fields, as_sent([one for n, one in enumerate(fields) if n not in dropped]))
        for fields, dropped in HOPS
    ],
    (["Expect: 100-continue", "Proxy-Authorization: Basic x", "X: 1"], ["X: 1"]),
    (["Authorization: Bearer users", "Api-Key: a", "OpenAI-Organization: o"], None),
    (["Accept: text/event-stream", "Accept-Encoding: gzip, br", "User-Agent: curl/8"], None),
    (["traceparent: 00-ab-cd-01", "tracestate: a=1", "baggage: x=y"], None),
    (["Cookie: a=1", "Cookie: b=2", "Origin: https://a.example", "Referer: https://a.example/x"], None),
    (["Connection: Host, Content-Length, Content-Type", "X: 1"], ["X: 1"]),
    (["Connection: close, X-Hop", "X-Hop: 1", "X: 1"], ["X: 1"]),
]


@pytest.mark.parametrize(("framing", "version"), [("length", "1.1"), ("chunks", "1.1"), ("length", "1.0")])
def test_h18_header_copying_from_clients_keeps_names_order_and_repeats(framing: str, version: str) -> None:
    """The engine gets each end-to-end field as the client wrote it, one Host and one framing of our own."""

    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        async with running(engine) as gateway:

            async def one(n: int) -> None:
                if version == "1.0" and any("keep-alive" in one for one in REQUESTS[n][0]):
                    return  # asks to be kept, where it is to be closed
                body = chunk(NOT_STREAMED[:9]) + chunk(NOT_STREAMED[9:]) + LAST
                stated = b"Transfer-Encoding: chunked"
                if framing == "length":
                    body, stated = NOT_STREAMED, b"Content-Length: %d" % len(NOT_STREAMED)
                fields = "".join(f"{one}\r\n" for one in REQUESTS[n][0]).encode("latin-1")
                line = f"POST {PATH}?{n} HTTP/{version}\r\nHost: gw\r\n".encode()
                last = b"\r\nConnection: close\r\n\r\n"
                got = await ask(gateway.port, line + fields + stated + last + body)
                assert b" 200 " in got.raw

            await at_once(one(n) for n in range(len(REQUESTS)))
            # TE may be said anew for this hop, which passes trailers on.
            own = {*OURS, "host", "via", "x-forwarded-for", "content-type", "te"}
            asked = {number(peer): peer for peer in engine.asked}
            for n, (fields, expected) in enumerate(REQUESTS):
                if n not in asked and version == "1.0":
                    continue
                peer = asked[n]
                wanted = as_sent(fields) if expected is None else expected
                seen = told(peer.headers, own)
                assert seen == [one for one in wanted if one.partition(":")[0].lower() not in own], fields
                names = [name.lower() for name, _ in peer.headers]
                ours = {
                    f"{name}: {value}".lower()
                    for name, value in peer.headers
                    if name.lower() in ("te", "connection")
                }
                assert ours <= {"te: trailers", "connection: te"}
                assert names.count("content-length") + names.count("transfer-encoding") == 1
                assert names.count("host") == 1
                assert ("host", engine.url.removeprefix("http://")) in [
                    (k.lower(), v) for k, v in peer.headers
                ]
                assert peer.body == NOT_STREAMED

    run(test())


@pytest.mark.parametrize("name", ["x", "m2", "the-engines-own-name", "org/ä 🙂", 'a"b\\c', "m" * 5000])
@pytest.mark.parametrize("read_bytes", [1 << 20, 60], ids=["read", "gone by"])
def test_h18_header_copying_states_the_length_of_the_body_that_is_sent(name: str, read_bytes: int) -> None:
    """Where the body is rewritten, shorter or longer, its length is too: the engine never waits or cuts."""
    bodies = [
        CHAT,
        NOT_STREAMED,
        b'{"model": "m", "x":"' + b"A" * 500 + b'"}',
        CHAT.replace(b'"m"', b'"\\u006d"'),
    ]

    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        await engine.start()
        spec = EngineSpec(0, engine.url, kind="vllm", model=name)
        fleets = [FleetSpec("m", ("m",), True, (spec,), "least_load")]
        async with running(engine, fleets=fleets, limits=LimitsSpec(read_bytes=read_bytes)) as gateway:
            for body in bodies:
                framed = post(body)
                in_chunks = framed.replace(b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked")
                in_chunks = in_chunks[: -len(body)] + chunk(body[:30]) + chunk(body[30:]) + LAST
                for request in (framed, in_chunks):
                    got = await ask(gateway.port, request, timeout_s=30)
                    assert got.status == 200
                    peer = engine.asked[-1]
                    low = {field.lower(): value for field, value in peer.headers}
                    assert low.get("content-length", str(len(peer.body))) == str(len(peer.body))
                    assert json.loads(peer.body)["model"] == name
        assert len(engine.asked) == 2 * len(bodies)

    run(test())


def test_h18_header_copying_the_length_of_a_head_is_kept_and_awaited_by_nobody() -> None:
    """HEAD, 304 and 204 have no body whatever they state, and the connection goes on."""

    async def script(peer: Peer) -> None:
        status, fields = [
            (b"200 OK", b"Content-Length: 1234\r\n"),
            (b"200 OK", b"Transfer-Encoding: chunked\r\n"),
            (b"404 Not Found", b"Content-Length: 9\r\n"),
        ][number(peer)]
        await peer.send(b"HTTP/1.1 " + status + b"\r\n" + fields + b"\r\n")

    async def test() -> None:
        async with running(Engine(script)) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            for n in (0, 1, 2, 0):
                writer.write(b"HEAD /v1/x?%d HTTP/1.1\r\nHost: g\r\n\r\n" % n)
                raw = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
                assert (b"Content-Length: 1234" in raw) == (n == 0)
                assert raw.startswith(b"HTTP/1.1 404" if n == 2 else b"HTTP/1.1 200")
            writer.close()

    run(test())


def test_h18_header_copying_the_last_chunks_of_one_hop_are_not_those_of_the_next() -> None:
    """Chunk extensions and trailers of the engine end here: its framing is its own."""
    sent = b"4;x=y\r\nabcd\r\n0\r\nX-Trailer: 1\r\n\r\n"

    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD.replace(b"text/event-stream", b"text/plain") + sent)

    async def test() -> None:
        async with running(Engine(script), Engine(streams(TOKEN))) as gateway:
            for _ in range(4):
                got = await ask(gateway.port, post())
                if got.header("content-type") == ["text/plain"]:
                    assert got.body == b"4\r\nabcd\r\n0\r\n\r\n"

    run(test())
