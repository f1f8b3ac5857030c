"""Which header fields pass the whole gateway, both ways, in which order and case: over real sockets."""

import asyncio

import pytest

from gateway.clients.trust import Trust
from tests.support import CHAT, Engine, Peer, answers, ask, json_answer, parse, running, until
from tests.support_shared import run

OK = json_answer(b"{}")
LOOPBACK = ("127.0.0.0/8",)

# What the gateway writes itself, whatever the client sent.
OWN = ["host", "x-forwarded-for", "via", "content-length", "x-request-id"]


def kept(*lines: str) -> tuple[list[str], list[str]]:
    return list(lines), list(lines)


def dropped(*lines: str, rest: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    return [*lines, *rest], list(rest)


# What a client sends and what of it the engine gets, byte for byte and in order.
REQUESTS: dict[str, tuple[list[str], list[str]]] = {
    "case is kept": kept("X-MiXed-CaSe: VaLue", "lower: a", "UPPER: B"),
    "order is kept": kept("B: 1", "A: 2", "C: 3", "A: 4"),
    "repeats are kept apart": kept("X-Tag: one", "X-Tag: two", "x-tag: one"),
    "an empty value": kept("X-Empty: "),
    "a value with blanks and commas inside": kept("X-List: a, b ,c  d"),
    "bytes beyond ASCII in a value": kept("X-Name: caf\xe9"),
    "a colon in a value": kept("X-Url: http://a:1/b"),
    "a long value": kept("X-Long: " + "a" * 12_000),
    "cookies": kept("Cookie: a=1; b=2", "Cookie: c=3"),
    "the client's credential": kept("Authorization: Bearer user"),
    "a credential of Anthropic's kind": kept("x-api-key: user", "anthropic-version: 2023-06-01"),
    "trace context": kept("traceparent: 00-4bf9-00f0-01", "tracestate: a=1,b=2", "baggage: k=v"),
    "accepted codings, and none but those": kept("Accept-Encoding: gzip, br"),
    "a body's coding": kept("Content-Language: en", "Content-MD5: x"),
    "the SDK's own": kept("X-Stainless-Lang: python", "User-Agent: OpenAI/Python", "OpenAI-Organization: o"),
    "conditions": kept('If-None-Match: "a"', "Range: bytes=0-1", "Cache-Control: no-store"),
    "origin": kept("Origin: https://a.example", "Referer: https://a.example/x"),
    "connection": dropped("Connection: keep-alive", rest=("A: 1",)),
    "connection in several lines": dropped(
        "Connection: X-A", "connection: x-b", "X-A: 1", "X-B: 2", rest=("X-C: 3",)
    ),
    "named in a list, with blanks and in other case": dropped(
        "Connection: keep-alive , X-One,\tX-TWO ,, x-three", "x-ONE: 1", "X-Two: 2", "X-Three: 3",
        rest=("X-Four: 4",),
    ),
    "named and not there": dropped("Connection: X-Absent", rest=("X-There: 1",)),
    "each repeat of what is named": dropped("X-Hop: 1", "Connection: X-Hop", "X-Hop: 2", rest=("A: 1",)),
    "a name that begins alike is not named": dropped("Connection: X-Hop", rest=("X-Hop-Not: 1",)),
    "keep-alive": dropped("Keep-Alive: timeout=5, max=10"),
    "proxy-connection": dropped("Proxy-Connection: keep-alive"),
    "proxy-authorization": dropped("Proxy-Authorization: Basic eDp5"),
    "proxy-authenticate": dropped("Proxy-Authenticate: Basic"),
    "te": dropped("TE: gzip;q=0.5"),
    "trailer": dropped("Trailer: X-Sum"),
    "upgrade without connection": dropped("Upgrade: websocket"),
    "expect": dropped("Expect: 100-continue"),
    "namesakes of framing with underscores": dropped(
        "Content_Length: 3", "Transfer_Encoding: chunked", rest=("A_b: 1",)
    ),
    "x-forwarded-for of a stranger": dropped("X-Forwarded-For: 6.6.6.6", "x-forwarded-for: 7.7.7.7"),
    "x-forwarded-proto of a stranger": dropped("X-Forwarded-Proto: https"),
    "x-forwarded-host of a stranger": dropped("X-Forwarded-Host: admin.example", "X-Forwarded-Port: 1"),
    "x-forwarded-anything of a stranger": dropped("X-Forwarded-User: root", "X-Forwarded-Prefix: /p"),
    "x_forwarded_for of a stranger": dropped("X_Forwarded_For: 6.6.6.6"),
    "forwarded of a stranger": dropped("Forwarded: for=6.6.6.6;host=x", "forwarded: for=7.7.7.7"),
    "x-real-ip of a stranger": dropped("X-Real-IP: 6.6.6.6"),
    "internal headers of a stranger": dropped(
        "X-Shadowlane-Copy: fp8", "x-shadowlane-anything: 1", rest=("X-Shadow: 1",)
    ),
    "what only resembles them": kept("X-Forwarder: 1", "X-Realm: 2", "Forwarded-By: 3"),
}  # fmt: skip


def asking(lines: list[str], version: str = "1.1") -> bytes:
    head = [
        f"POST /v1/chat/completions HTTP/{version}",
        "Host: gw.example",
        *lines,
        f"Content-Length: {len(CHAT)}",
    ]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + CHAT


async def sent_on(port: int, engine: Engine, request: bytes) -> list[str]:
    """The header lines the engine got for this request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        before = len(engine.asked)
        writer.write(request)
        async with asyncio.timeout(20):
            raw = await reader.readuntil(b"{}")
        assert b"HTTP/1.1 200 OK\r\n" in raw, raw
        assert len(engine.asked) == before + 1
    finally:
        writer.close()
    return [f"{name}: {value}" for name, value in engine.asked[-1].headers]


def test_what_a_client_sends_reaches_the_engine_as_the_table_says() -> None:
    async def go() -> None:
        engine = Engine(answers(OK))
        async with running(engine) as gateway:
            for name, (sent, expected) in REQUESTS.items():
                got = await sent_on(gateway.port, engine, asking(sent))
                passed = [line for line in got if line.partition(":")[0] not in OWN]
                assert passed == expected, (name, got)
                own = {line.partition(": ")[0]: line.partition(": ")[2] for line in got if line not in passed}
                assert own.pop("x-request-id").startswith("sl-"), name
                assert own == {
                    "host": f"127.0.0.1:{engine.port}",
                    "x-forwarded-for": "127.0.0.1",
                    "via": "1.1 shadowlane",
                    "content-length": str(len(CHAT)),
                }, name

    run(go())


TRUSTED: dict[str, tuple[list[str], list[str]]] = {
    "x-forwarded-for goes on": (["X-Forwarded-For: 6.6.6.6"], ["x-forwarded-for: 6.6.6.6, 127.0.0.1"]),
    "several lines become one list in order": (
        ["X-Forwarded-For: 1.1.1.1, 2.2.2.2", "x-forwarded-for: 3.3.3.3"],
        ["x-forwarded-for: 1.1.1.1, 2.2.2.2, 3.3.3.3, 127.0.0.1"],
    ),
    "none, and it is begun": ([], ["x-forwarded-for: 127.0.0.1"]),
    "proto, host, port": kept(
        "X-Forwarded-Proto: https", "X-Forwarded-Host: api.example", "X-Forwarded-Port: 443"
    ),
    "forwarded": kept('Forwarded: for="[2001:db8::1]";proto=https', "Forwarded: for=2.2.2.2"),
    "x-real-ip": kept("X-Real-IP: 6.6.6.6"),
    "internal headers": kept("X-Shadowlane-Hint: 1"),
}  # fmt: skip


def test_a_trusted_proxys_word_is_passed_on() -> None:
    async def go() -> None:
        engine = Engine(answers(OK))
        async with running(engine, trusted_proxies=LOOPBACK) as gateway:
            for name, (sent, expected) in TRUSTED.items():
                got = await sent_on(gateway.port, engine, asking(sent))
                assert [line for line in got if line in expected] == expected, (name, got)
                assert sum(line.startswith("x-forwarded-for:") for line in got) == 1, name
        async with running(engine, trusted_proxies=("10.0.0.0/8", "::1/128")) as gateway:
            for name, (sent, _) in TRUSTED.items():
                got = await sent_on(gateway.port, engine, asking(sent))
                assert not set(got) & set(sent), (name, got)
                assert "x-forwarded-for: 127.0.0.1" in got, name

    run(go())


def test_who_is_trusted_after_a_reload_is_so_on_open_connections_too() -> None:
    async def go() -> None:
        engine = Engine(answers(OK))
        async with running(engine) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            for networks, expected in (
                ((), "127.0.0.1"),
                (LOOPBACK, "6.6.6.6, 127.0.0.1"),
                ((), "127.0.0.1"),
            ):
                assert await gateway.renew(trusted_proxies=networks) is None
                writer.write(asking(["X-Forwarded-For: 6.6.6.6"]))
                await reader.readuntil(b"\r\n\r\n")
                await until(lambda: len(engine.asked) > 0)
                assert ("x-forwarded-for", expected) in engine.asked.pop().headers
                await reader.readexactly(len(b"{}"))
            writer.close()

    run(go())


@pytest.mark.parametrize(
    ("sent", "version", "via"),
    [
        ([], "1.1", "via: 1.1 shadowlane"),
        ([], "1.0", "via: 1.0 shadowlane"),
        (["Via: 1.1 edge"], "1.1", "via: 1.1 edge, 1.1 shadowlane"),
        (["Via: 1.0 a (x)", "via: 2 b, 1.1 c"], "1.1", "via: 1.0 a (x), 2 b, 1.1 c, 1.1 shadowlane"),
    ],
)
def test_via_tells_the_way_and_the_version_that_came(sent: list[str], version: str, via: str) -> None:
    async def go() -> None:
        engine = Engine(answers(OK))
        async with running(engine) as gateway:
            got = await sent_on(gateway.port, engine, asking(sent, version))
            assert [line for line in got if line.lower().startswith("via:")] == [via]

    run(go())


# What an engine sends and what of it the client gets.
ANSWERS: dict[str, tuple[list[str], list[str]]] = {
    "case, order and repeats": kept(
        "Set-Cookie: a=1", "X-Tag: 1", "set-cookie: b=2; Expires=Wed, 01 Jan 2031 00:00:00 GMT", "X-tag: 1"
    ),
    "limits of the engine": kept("x-ratelimit-remaining-requests: 0", "Retry-After: 7"),
    "server and date": kept("server: uvicorn", "date: Wed, 01 Jan 2031 00:00:00 GMT"),
    "a coding": kept("Content-Encoding: gzip", "Vary: Accept-Encoding", "ETag: W/\"1\""),
    "an empty value": kept("X-Empty: "),
    "bytes beyond ASCII": kept("X-Name: caf\xe9"),
    "cross-origin, while the gateway has no word in it": kept("Access-Control-Allow-Origin: *"),
    "connection and what it names": dropped("Connection: X-Hop, keep-alive", "X-Hop: 1", rest=("X-Stay: 1",)),
    "keep-alive": dropped("Keep-Alive: timeout=5", "Connection: keep-alive"),
    "proxy-authenticate": dropped("Proxy-Authenticate: Basic"),
    "proxy-connection": dropped("Proxy-Connection: close"),
    "upgrade": dropped("Upgrade: h2c"),
    "te": dropped("TE: trailers"),
    "www-authenticate": kept('WWW-Authenticate: Bearer realm="e", Basic', "WWW-Authenticate: Negotiate"),
    "location is not followed": kept("Location: http://169.254.169.254/latest"),
}  # fmt: skip


def test_what_an_engine_sends_reaches_the_client_as_the_table_says() -> None:
    async def go() -> None:
        said: list[str] = []

        async def script(peer: Peer) -> None:
            lines = ["HTTP/1.1 200 OK", *said, "Content-Length: 2"]
            await peer.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n{}")

        engine = Engine(script)
        async with running(engine) as gateway:
            for name, (sent, expected) in ANSWERS.items():
                said[:] = sent
                raw = (await ask(gateway.port, asking(["Connection: close"]))).raw
                got = [f"{header}: {value}" for header, value in parse(raw).headers]
                assert got.pop().startswith("x-request-id: sl-"), name
                assert got == [*expected, "Content-Length: 2", "Connection: close"], name

    run(go())


@pytest.mark.parametrize(
    ("networks", "peer", "covered"),
    [
        (["10.0.0.0/8"], "10.1.2.3", True),
        (["10.0.0.0/8"], "11.1.2.3", False),
        (["10.0.0.0/8"], "::ffff:10.1.2.3", True),
        (["fd00::/8", "192.0.2.7"], "192.0.2.7", True),
        (["fd00::/8"], "fd12::1%eth0", True),
        (["::/0"], "10.0.0.1", False),
        (["0.0.0.0/0"], "unknown", False),
        ([], "127.0.0.1", False),
    ],
)
def test_whose_word_is_taken(networks: list[str], peer: str, covered: bool) -> None:
    assert Trust(networks).covers(peer) is covered


def test_a_requests_id_is_the_clients_or_ours_and_the_same_on_both_sides() -> None:
    async def go() -> None:
        engine = Engine(answers(b"HTTP/1.1 200 OK\r\nX-Request-ID: engine\r\nContent-Length: 2\r\n\r\n{}"))
        async with running(engine) as gateway:
            for given, ours in (
                ("X-Request-ID: abc-7", False),
                ("X-Request-ID: <a b>", True),
                ("a: b", True),
            ):
                raw = (await ask(gateway.port, asking([given, "Connection: close"]))).raw
                [told] = [value for name, value in parse(raw).headers if name.lower() == "x-request-id"]
                [sent] = [value for name, value in engine.asked[-1].headers if name.lower() == "x-request-id"]
                assert told == sent and told.startswith("sl-") == ours, given
                assert ours or told == "abc-7"

    run(go())


def test_refusals_of_the_gateways_own_carry_the_requests_id_too() -> None:
    async def go() -> None:
        async with running(Engine(answers(OK))) as gateway:
            for line in ("POST /v1/chat/completions", "GET /v1/models", "GET /health", "GET /metrics"):
                body = b"{" if line.startswith("POST") else b""
                head = f"{line} HTTP/1.1\r\nHost: g\r\nX-Request-ID: mine\r\nContent-Length: {len(body)}\r\n"
                raw = (await ask(gateway.port, head.encode() + b"Connection: close\r\n\r\n" + body)).raw
                ids = [value for name, value in parse(raw).headers if name.lower() == "x-request-id"]
                assert ids == ["mine"], (line, raw)

    run(go())
