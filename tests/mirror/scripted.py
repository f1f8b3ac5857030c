"""Engines that do as they are told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.connections import end_by_reset, until_left

SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass(slots=True)
class Request:
    """What an engine received."""

    line: bytes
    headers: dict[str, str]
    body: bytes
    nth: int  # of its connection, from 0
    raw: bytes


Script = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Engine:
    """A running scripted engine."""

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    left_early: int = 0  # answers the other side did not read to the end
    finished: int = 0


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def tokens(request: Request, writer: asyncio.StreamWriter) -> None:
    """Eight tokens, a usage event and [DONE]."""
    writer.write(SSE_HEAD)
    for k in range(8):
        reason = b'"stop"' if k == 7 else b"null"
        choice = b'{"index":0,"delta":{"content":"t%d "},"finish_reason":%b}' % (k, reason)
        writer.write(chunk(b'data: {"choices":[%b]}\n\n' % choice))
        await writer.drain()
        await asyncio.sleep(0)
    writer.write(chunk(b'data: {"choices":[],"usage":{"completion_tokens":8}}\n\n'))
    writer.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    await writer.drain()


async def hang(request: Request, writer: asyncio.StreamWriter) -> None:
    """Accepts and never answers."""
    await asyncio.sleep(60)


async def stall(request: Request, writer: asyncio.StreamWriter) -> None:
    """One token and then nothing."""
    writer.write(SSE_HEAD + chunk(b"data: {}\n\n"))
    await asyncio.sleep(60)


async def reset(request: Request, writer: asyncio.StreamWriter) -> None:
    """Two tokens, then RST."""
    writer.write(SSE_HEAD + chunk(b"data: {}\n\n") * 2)
    await writer.drain()
    await asyncio.sleep(0.05)
    end_by_reset(writer)
    raise ConnectionResetError


async def flood(request: Request, writer: asyncio.StreamWriter) -> None:
    """One gigabyte, as fast as it is read."""
    writer.write(SSE_HEAD)
    for _ in range(16384):
        writer.write(chunk(b"x" * 65536))
        await writer.drain()


async def drip(request: Request, writer: asyncio.StreamWriter) -> None:
    """A byte a second, for ever."""
    writer.write(SSE_HEAD)
    while True:
        writer.write(chunk(b"x"))
        await writer.drain()
        await asyncio.sleep(1.0)


async def nonsense(request: Request, writer: asyncio.StreamWriter) -> None:
    """Not HTTP."""
    writer.write(b"\x16\x03\x01 what?\r\n\r\n")
    await writer.drain()


async def busy(request: Request, writer: asyncio.StreamWriter) -> None:
    """A refusal in good form."""
    body = b'{"error":"busy"}'
    head = b"HTTP/1.1 503 Busy\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    writer.write(head + body)
    await writer.drain()


async def leaves_kept_connections(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answers the first request of a connection; closes on the second as if it had just been closing."""
    if request.nth > 0:
        raise ConnectionResetError
    await tokens(request, writer)


@asynccontextmanager
async def engine(script: Script) -> AsyncIterator[Engine]:
    """Run `script` for every request that comes to a port of its own."""
    running = Engine()
    connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Known from here on: a task that is cancelled before its first step would leave its connection open.
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        connections[task] = writer
        task.add_done_callback(connections.pop)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nth = 0
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                line, *lines = head[:-4].split(b"\r\n")
                headers = {
                    k.decode().lower(): v.strip().decode("latin-1")
                    for k, _, v in (x.partition(b":") for x in lines)
                }
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                request = Request(line, headers, body, nth, head + body)
                running.requests.append(request)
                nth += 1
                whole = False
                with until_left(writer):
                    await script(request, writer)
                    whole = True
                if not whole:
                    running.left_early += 1
                    return
                running.finished += 1
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    running.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield running
    finally:
        server.close()
        open_still = dict(connections)
        for task, writer in open_still.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*open_still, return_exceptions=True)
