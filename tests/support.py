"""What whole-gateway tests stand on: a scripted engine, a running worker, a raw client.  All on loopback."""

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from traceback import format_exception
from typing import Any

import structlog
from structlog.testing import LogCapture

from gateway.admission.desk import create_table
from gateway.admission.table import Table
from gateway.bridge.asker import USER_AGENT
from gateway.fleets.loads import LoadTable
from gateway.processes.line import Done
from gateway.processes.worker import serve_worker
from gateway.spec import EngineSpec, FleetSpec, LimitsSpec, SamplingSpec, WorkerSpec
from tests.connections import until_left

ROLE = '{"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}'
TOKEN = '{"id":"1","choices":[{"index":0,"delta":{"content":"tok"}}]}'
FINISH = '{"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"

SPARE_COLUMNS = 64  # for engines that a test adds

_PROBES = tuple(
    f"GET {path} "
    for path in (
        "/health",
        "/ping",
        "/v1/models",
        "/version",
        "/props",
        "/metrics",
        "/prometheus/metrics",
        "/server_info",
        "/kv_event_sources",
        "/get_model_info",
        "/info",
    )
)

Script = Callable[["Peer"], Awaitable[None]]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(payload: str) -> bytes:
    return chunk(b"data: " + payload.encode() + b"\n\n")


def json_answer(body: bytes, status: str = "200 OK", *extra: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *extra]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass
class Peer:
    """The gateway's connection, as a scripted engine sees it, with the request it is to answer."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    line: str
    headers: list[tuple[str, str]]
    body: bytes

    async def send(self, *pieces: bytes) -> None:
        """ConnectionError when the gateway has ended the connection, whatever the loop calls that."""
        for piece in pieces:
            if self.writer.transport.is_closing():
                raise ConnectionResetError
            self.writer.write(piece)
            await self.writer.drain()

    async def left(self) -> bool:
        """Wait for the gateway to go away."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def reset(self) -> None:
        self.writer.transport.abort()

    def close(self) -> None:
        self.writer.close()


@dataclass
class Engine:
    """A scripted engine: answers probes by itself and all else by its script; keeps what it was asked."""

    script: Script
    asked: list[Peer] = field(default_factory=list)
    probe_status: str = "200 OK"
    metrics: bytes = b""
    teaches: bool = False  # the script also answers what the gateway asks to learn prompts' tokens by
    port: int = 0
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, backlog=256, limit=1 << 20
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in list(self._writers):
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with until_left(writer):
                while (peer := await read_request(reader, writer)) is not None:
                    if peer.line.startswith(_PROBES):
                        body = b'{"object":"list","data":[{"id":"m","object":"model"}]}'
                        if peer.line.startswith("GET /metrics "):
                            body = self.metrics
                        await peer.send(json_answer(body, self.probe_status))
                        continue
                    if not self.teaches and any(value == USER_AGENT for _, value in peer.headers):
                        await peer.send(json_answer(b"{}", "404 Not Found"))
                        continue
                    self.asked.append(peer)
                    await self.script(peer)
                    if writer.is_closing():
                        break
        finally:
            self._writers.discard(writer)
            writer.close()


def in_full(failed: Sequence[Mapping[str, Any]]) -> str:
    """What a loop's exception handler or a log was told of failures, each with its traceback."""
    told = []
    for context in failed:
        told.append(", ".join(f"{name}={value!r}" for name, value in context.items()))
        if isinstance(error := context.get("exception"), BaseException):
            told.append("".join(format_exception(error)))
    return "\n".join(told)


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Peer | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    line, *rest = head.split("\r\n")[:-2]
    headers = [(name, value.strip()) for name, _, value in (one.partition(":") for one in rest)]
    low = {name.lower(): value for name, value in headers}
    body = b""
    if "content-length" in low:
        body = await reader.readexactly(int(low["content-length"]))
    elif "transfer-encoding" in low:
        while size := int(await reader.readuntil(b"\n"), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    return Peer(reader, writer, line, headers, body)


def answers(*pieces: bytes) -> Script:
    """A script that sends these pieces."""

    async def script(peer: Peer) -> None:
        await peer.send(*pieces)

    return script


def streams(*payloads: str, done: bool = True) -> Script:
    """A script that streams these events and ends as engines do."""
    end = [event("[DONE]")] if done else []
    return answers(SSE_HEAD, *map(event, payloads), *end, LAST)


@dataclass
class Gateway:
    """A worker that serves, in this process and on this loop."""

    port: int
    run_dir: Path
    loads: LoadTable
    held: Table
    stop: asyncio.Event
    spec: WorkerSpec
    changes: "asyncio.Queue[tuple[WorkerSpec, Done]]"
    unreached: list[str] = field(default_factory=list)

    async def renew(self, **changed: Any) -> str | None:
        """Have the worker serve by another spec; None, or why it does not."""
        answered: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.spec = replace(self.spec, **changed)
        self.changes.put_nowait((self.spec, answered.set_result))
        return await asyncio.wait_for(answered, 30)

    def inflight(self, engine: int = 0) -> int:
        return self.loads.totals(engine)[0]


@asynccontextmanager
async def running(
    *engines: Engine,
    limits: LimitsSpec | None = None,
    experiments: Sequence[SamplingSpec] = (),
    fleets: Sequence[FleetSpec] | None = None,
    policy: str = "least_load",
    **overrides: Any,
) -> AsyncIterator[Gateway]:
    """A gateway worker in front of these engines (or of `fleets`); all stopped at the end.

    Fails when a task of the worker did, or anything that the loop called.
    """
    log = LogCapture()
    failed: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failed.append(context))
    for engine in engines:
        if engine._server is None:
            await engine.start()
    if fleets is None:
        specs = tuple(EngineSpec(i, engine.url, kind="vllm") for i, engine in enumerate(engines))
        fleets = (FleetSpec(None, (), True, specs, policy),)
    count = 1 + max(engine.id for fleet in fleets for engine in fleet.engines)
    with tempfile.TemporaryDirectory(prefix="sl") as name:
        run_dir = Path(name)
        # Room for a second worker: one that is alone tells its load to nobody.
        loads = LoadTable.create(run_dir / "loads.bin", 2, count + SPARE_COLUMNS)
        held = create_table(
            run_dir, workers=2, fleets=len(fleets), engines=count + SPARE_COLUMNS, keys=SPARE_COLUMNS
        )
        listener = socket.create_server(("127.0.0.1", 0))
        spec = WorkerSpec(
            0,
            1,
            tuple(fleets),
            tuple(experiments),
            limits or LimitsSpec(drain_s=5.0),
            name,
            64 << 20,
            8 << 20,
            b"k" * 32,
        )
        spec = replace(spec, **overrides)
        gateway = Gateway(
            listener.getsockname()[1], run_dir, loads, held, asyncio.Event(), spec, asyncio.Queue()
        )
        task = asyncio.get_running_loop().create_task(
            serve_worker(
                spec,
                [listener],
                gateway.stop,
                structlog.wrap_logger(structlog.ReturnLogger(), processors=[log]),
                changes=_from(gateway.changes),
                unreached=gateway.unreached.append,
            )
        )
        try:
            yield gateway
        except BaseException as error:
            if failed:
                error.add_note(in_full(failed))
            raise
        finally:
            gateway.stop.set()
            await asyncio.wait_for(task, 30)
            held.close()
            for engine in engines:
                await engine.stop()
        failed += [entry for entry in log.entries if entry["event"] == "task failed"]
        assert not failed, in_full(failed)


async def _from(changes: "asyncio.Queue[tuple[WorkerSpec, Done]]") -> AsyncIterator[tuple[WorkerSpec, Done]]:
    while True:
        yield await changes.get()


@dataclass
class Answered:
    """What a raw client read."""

    raw: bytes
    status: int
    headers: list[tuple[str, str]]
    body: bytes  # framed as it came

    def header(self, name: str) -> list[str]:
        return [value for given, value in self.headers if given.lower() == name]

    @property
    def text(self) -> bytes:
        """The body without its chunks; a body cut short gives what came."""
        if "chunked" not in self.header("transfer-encoding"):
            return self.body
        out, rest = b"", self.body
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            n = int(size, 16) if size else 0
            if n == 0:
                break
            out, rest = out + rest[:n], rest[n + 2 :]
        return out

    @property
    def is_whole(self) -> bool:
        if "chunked" in self.header("transfer-encoding"):
            return self.body.endswith(b"0\r\n\r\n")
        length = self.header("content-length")
        return not length or len(self.body) == int(length[0])


CHAT = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'


def post(body: bytes = CHAT, path: str = "/v1/chat/completions", *extra: str, close: bool = True) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: gw",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    lines += [*extra, *(["Connection: close"] if close else [])]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def ask(port: int, request: bytes, timeout_s: float = 20) -> Answered:
    """Send raw bytes, read to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        raw = b""
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    piece = await reader.read(1 << 16)
                except ConnectionResetError:
                    break
                if not piece:
                    break
                raw += piece
    finally:
        writer.close()
    return parse(raw)


def parse(raw: bytes) -> Answered:
    head, _, body = raw.partition(b"\r\n\r\n")
    line, *rest = head.decode("latin-1").split("\r\n")
    headers = [(name, value.strip()) for name, _, value in (one.partition(":") for one in rest)]
    status = int(line.split()[1]) if line else 0
    return Answered(raw, status, headers, body)


async def until(true: Callable[[], bool], timeout_s: float = 30) -> None:
    """Wait until something becomes true; TimeoutError when it does not."""
    async with asyncio.timeout(timeout_s):
        while not true():
            await asyncio.sleep(0.01)
