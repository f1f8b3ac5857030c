"""I2: mirrored or not, an engine gets the same bytes and a client the same answer, whatever both are."""

import asyncio
import gzip
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.spec import EngineSpec, FleetSpec, SamplingSpec
from mirror.spec import ArmSpec
from tests.failures.shadowed import connections
from tests.mirror import scripted
from tests.mirror.staging import Stage as Mirror
from tests.mirror.staging import experiment, shadow
from tests.support import Gateway, running, until

_CASE = re.compile(rb"(?i)\r\nx-request-id: ?case-(\d+)\r\n")
STATES = ("off", "on", "stalled")


@dataclass(frozen=True)
class Message:
    """A request or an answer, as it is put on the wire, and its body without framing."""

    raw: bytes
    body: bytes


@dataclass
class Engine:
    """Answers each case as it was told to, and keeps the bytes in which it was asked."""

    answers: dict[int, bytes] = field(default_factory=dict)
    asked: dict[int, list[bytes]] = field(default_factory=dict)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                raw, _ = await whole(reader)
                if (case := _CASE.search(raw)) is None:  # a probe
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
                else:
                    self.asked.setdefault(int(case[1]), []).append(raw)
                    writer.write(self.answers[int(case[1])])
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


async def whole(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The next message: all its bytes, its body's framing apart, and the body alone."""
    head = await reader.readuntil(b"\r\n\r\n")
    low = head.lower()
    if b"\r\ntransfer-encoding:" in low:
        body, raw = b"", head
        while True:
            line = await reader.readline()
            size = int(line, 16)
            piece = await reader.readexactly(size)
            body += piece
            if not size:
                break
            await reader.readexactly(2)
        while (line := await reader.readline()) not in (b"\r\n", b""):
            raw += line  # a trailer
        return raw + body, body
    length = int(low.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0] or 0)
    body = await reader.readexactly(length)
    return head + body, body


@dataclass
class Stage:
    """One engine, and three gateways before it: copying nothing, all, and all to a shadow that hangs."""

    engine: Engine
    gateways: dict[str, Gateway]
    mirror: Mirror

    async def asked(
        self, state: str, requests: Sequence[Message]
    ) -> tuple[list[str], list[str], list[bytes]]:
        """Ask over one connection; digests of what engine and client got, and the bodies of the answers."""
        self.engine.asked.clear()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.gateways[state].port)
        try:
            writer.write(b"".join(one.raw for one in requests))
            async with asyncio.timeout(30):
                answers = [await whole(reader) for _ in requests]
        finally:
            writer.close()
        asked = [raw for case in sorted(self.engine.asked) for raw in self.engine.asked[case]]
        return _digests(asked), _digests([raw for raw, _ in answers]), [body for _, body in answers]


def _digests(them: Sequence[bytes]) -> list[str]:
    return [sha256(one).hexdigest() for one in them]


@asynccontextmanager
async def _gateway(stack: AsyncExitStack, state: str, port: int) -> AsyncIterator[Gateway]:
    fleets = [FleetSpec(None, (), True, (EngineSpec(0, f"http://127.0.0.1:{port}", "openai"),), "least_load")]
    samplings = () if state == "off" else (SamplingSpec("fp8-kv", None, 1.0, b"salt"),)
    async with running(fleets=fleets, experiments=samplings) as gateway:
        yield gateway


async def _started(stack: AsyncExitStack) -> Stage:
    engine = Engine()
    server = await asyncio.start_server(engine.serve, "127.0.0.1", 0, limit=1 << 26)
    stack.callback(server.close)
    engine.port = server.sockets[0].getsockname()[1]
    gateways = {one: await stack.enter_async_context(_gateway(stack, one, engine.port)) for one in STATES}
    control = await stack.enter_async_context(scripted.engine(scripted.tokens))
    bad = await stack.enter_async_context(scripted.engine(scripted.reset))
    told = experiment(ArmSpec("control", control.url), ArmSpec("c", bad.url), max_inflight=50)
    mirror = await stack.enter_async_context(shadow(gateways["on"].run_dir, told, drain_s=0.1))
    stack.push_async_callback(mirror.analysis.close)  # whose line to the worker would outlive the shadow

    async def hangs(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        stack.callback(writer.transport.abort)

    lane = str(gateways["stalled"].run_dir / "lane.sock")
    stack.callback((await asyncio.start_unix_server(hangs, lane)).close)
    for state in ("on", "stalled"):
        path = str(gateways[state].run_dir / "lane.sock")
        await until(lambda path=path: connections(path) > 0, 30)  # type: ignore[misc]
    return Stage(engine, gateways, mirror)


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[asyncio.Runner, Stage]]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        stack = AsyncExitStack()
        try:
            yield runner, runner.run(_started(stack))
        finally:
            runner.run(stack.aclose())


NAMES = st.sampled_from(
    ["X-Tag", "x-tag", "Accept", "Cookie", "X-Session-Id", "traceparent", "X-Empty", "Via"]
)
VALUES = st.binary(max_size=20).map(lambda value: re.sub(rb"[\x00-\x20\x7f]", b"~", value))
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=5)
PATHS = st.sampled_from(
    [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/responses",
        "/v1/chat/completions?a=%20b",
    ]
)
TEXTS = st.one_of(
    st.text(max_size=30).map(lambda text: text.encode("utf-8", "replace")), st.binary(max_size=30)
)
CUTS = st.lists(st.integers(1, 40), max_size=6)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Mostly prompts; their text may be no UTF-8, or none at all."""
    text = draw(TEXTS).replace(b"\\", b"/").replace(b'"', b"'")
    repeated = text * draw(st.sampled_from([1, 1, 50, 2000]))
    stream = draw(st.sampled_from([b"true", b"false"]))
    prompt = b'{"model":"m","stream":%b,"messages":[{"role":"user","content":"%b"}]}' % (stream, repeated)
    return draw(
        st.sampled_from([prompt, prompt, prompt, prompt.replace(b",", b" ,\n"), text, b"", b"[" + prompt])
    )


def framed(body: bytes, cuts: Sequence[int], *, chunked: bool, trailer: bool = False) -> tuple[bytes, bytes]:
    """A line that tells of the framing, and the body in it."""
    if not chunked:
        return b"Content-Length: %d\r\n" % len(body), body
    out, at = b"", 0
    for size in [*cuts, len(body)]:
        if piece := body[at : at + size]:
            out += b"%x\r\n%b\r\n" % (len(piece), piece)
        at += size
    return b"Transfer-Encoding: chunked\r\n", out + b"0\r\n" + b"X-Sum: 1\r\n" * trailer + b"\r\n"


@st.composite
def requests(draw: st.DrawFn) -> Message:
    """Its case is filled in by `numbered`."""
    body = draw(bodies())
    coded = draw(st.integers(0, 5)) == 0
    sent = gzip.compress(body, mtime=0) if coded else body
    line, rest = framed(sent, draw(CUTS), chunked=draw(st.booleans()), trailer=draw(st.booleans()))
    head = b"POST %b HTTP/1.1\r\nHost: gw\r\nContent-Type: application/json\r\n" % draw(PATHS).encode()
    head += b"".join(b"%b: %b\r\n" % (name.encode(), value) for name, value in draw(HEADERS))
    head += b"Content-Encoding: gzip\r\n" if coded else b""
    return Message(head + b"x-request-id: case-N\r\n" + line + b"\r\n" + rest, sent)


@st.composite
def answers(draw: st.DrawFn) -> Message:
    """JSON, events, or anything; whole."""
    events = b"".join(
        b"data: " + one.replace(b"\r", b"").replace(b"\n", b"") + b"\n\n"
        for one in draw(st.lists(TEXTS, max_size=5))
    )
    kind, body = draw(
        st.sampled_from(
            [
                (b"text/event-stream", b'data: {"choices":[]}\n\n' + events + b"data: [DONE]\n\n"),
                (b"application/json", b'{"choices":[{"message":{"content":"x"}}]}'),
                (b"application/octet-stream", events),
            ]
        )
    )
    status = draw(
        st.sampled_from(
            [b"200 OK", b"200 OK", b"200 OK", b"400 Bad Request", b"404 Not Found", b"422 Unprocessable"]
        )
    )
    line, rest = framed(body, draw(CUTS), chunked=draw(st.booleans()))
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n" % (status, kind)
    return Message(head + line + b"\r\n" + rest, body)


BATCHES = st.lists(st.tuples(requests(), answers()), min_size=5, max_size=20)


@settings(max_examples=15)
@given(BATCHES)
def test_i2_the_same_bytes_reach_engine_and_client_with_mirroring_off_on_and_stalled(
    stage: tuple[asyncio.Runner, Stage], batch: list[tuple[Message, Message]]
) -> None:
    """Many requests over one connection, the next behind the one before it."""
    runner, it = stage
    asked = [
        Message(one.raw.replace(b"case-N", b"case-%d" % at, 1), one.body) for at, (one, _) in enumerate(batch)
    ]
    it.engine.answers = {at: answer.raw for at, (_, answer) in enumerate(batch)}
    found = {state: runner.run(it.asked(state, asked)) for state in STATES}
    assert found["on"] == found["off"] and found["stalled"] == found["off"]
    assert len(found["off"][1]) == len(batch)


def test_i2_a_body_that_goes_by_unread_is_the_same_too(stage: tuple[asyncio.Runner, Stage]) -> None:
    """Twenty megabytes: too large to be copied, and too large to be held."""
    runner, it = stage
    body = b'{"model":"m","messages":[{"role":"user","content":"%b"}]}' % (b"\xffx\n " * 5_000_000)
    line, rest = framed(body, [40_000] * 600, chunked=True)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: gw\r\nx-request-id: case-0\r\n"
    it.engine.answers = {0: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"}
    request = Message(head + line + b"\r\n" + rest, body)
    found = {state: runner.run(it.asked(state, [request])) for state in STATES}
    assert found["on"] == found["off"] and found["stalled"] == found["off"]


def test_i2_what_was_compared_was_copied(stage: tuple[asyncio.Runner, Stage]) -> None:
    runner, it = stage

    async def test() -> None:
        await until(lambda: bool(it.mirror.analysis.of("books")))
        assert it.mirror.books["admitted"] > 0

    runner.run(test())
