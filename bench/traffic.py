"""The engine and the clients of the benchmarks: as little CPU as Python can, every answer checked."""

import asyncio
import sys
import time
from collections import deque

import uvloop

EVENT = (
    b'data: {"id":"cmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}\n\n'
)
LAST_EVENT = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
JSON = (
    b'{"choices":[{"message":{"role":"assistant","content":"'
    + b"word " * 200
    + b'"},"finish_reason":"stop"}]}'
)
GAP_S = 0.01


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Engine(asyncio.Protocol):
    """Answers each POST with 1 KB of JSON, or with `events` chunks 10 ms apart for a stream."""

    def __init__(self, events: int) -> None:
        self._events = events
        self._held = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        data = self._held + data if self._held else data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._held = data
            return
        low = data[:end].lower()
        at = low.find(b"content-length:")
        length = (
            int(low[at + 15 : (low.find(b"\r\n", at) if low.find(b"\r\n", at) > 0 else None)])
            if at >= 0
            else 0
        )
        if len(data) - end - 4 < length:
            self._held = data
            return
        self._held = b""
        if b'"stream":true' in data[end:]:
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            self._transport.write(head + chunk(EVENT))
            self._stream(self._events - 1, time.monotonic() + GAP_S)
        else:
            body = JSON if data.startswith(b"POST") else b'{"data":[{"id":"m"}]}'
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (len(body), body)
            )

    def _stream(self, left: int, due_s: float) -> None:
        if self._transport.is_closing():
            return
        if left == 0:
            self._transport.write(chunk(LAST_EVENT) + b"0\r\n\r\n")
            return
        self._transport.write(chunk(EVENT))
        loop = asyncio.get_running_loop()
        loop.call_later(max(0.0, due_s - time.monotonic()), self._stream, left - 1, due_s + GAP_S)


def body(size: int, group: int, stream: bool, number: int) -> bytes:
    """A chat request of about `size` bytes: three quarters shared by its group, the tail its own."""
    shared = (b"prefix%d " % group) * (size * 3 // 4 // 8)
    own = b"question%d " % number * max(1, size // 4 // 12)
    flag = b'"stream":true,' if stream else b""
    return b'{"model":"m",%b"messages":[{"role":"system","content":"%b"},{"role":"user","content":"%b"}]}' % (
        flag,
        shared,
        own,
    )


class Client(asyncio.Protocol):
    """One connection in a closed loop; ends when the shared deque of requests is empty."""

    def __init__(self, requests: "deque[bytes]", done: "asyncio.Future[None]", counted: list[int]) -> None:
        self._requests = requests
        self._done = done
        self._counted = counted
        self._got = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._next()

    def _next(self) -> None:
        if not self._requests:
            self._transport.close()
            if not self._done.done():
                self._done.set_result(None)
            return
        self._got = b""
        self._transport.write(self._requests.popleft())

    def data_received(self, data: bytes) -> None:
        self._got += data
        if self._got.endswith(b"\r\n0\r\n\r\n") or (self._got.endswith(b'"stop"}]}') and JSON in self._got):
            if not self._got.startswith(b"HTTP/1.1 200"):
                self._fail(self._got[:200])
                return
            self._counted[0] += 1
            self._counted[1] += self._got.count(b'" token"')
            self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._fail(b"the connection was lost after " + self._got[:200])

    def _fail(self, why: bytes) -> None:
        if not self._done.done():
            self._done.set_exception(RuntimeError(why.decode("latin-1")))


async def load(port: int, size: int, stream: bool, total: int, connections: int) -> tuple[int, int, float]:
    """Send `total` requests; gives (answers, events, seconds).  Raises when one is wrong."""
    requests: deque[bytes] = deque()
    for number in range(total):
        sent = body(size, number % 8, stream, number)
        requests.append(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\n"
            b"Content-Type: application/json\r\nAuthorization: Bearer sk\r\nContent-Length: %d\r\n\r\n%b"
            % (len(sent), sent)
        )
    counted = [0, 0]
    loop = asyncio.get_running_loop()
    ends = [loop.create_future() for _ in range(connections)]
    begun = time.monotonic()
    for end in ends:
        await loop.create_connection(lambda end=end: Client(requests, end, counted), "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.gather(*ends)
    if counted[0] != total:
        raise RuntimeError(f"{counted[0]} of {total} answers came")
    return counted[0], counted[1], time.monotonic() - begun


async def serve(ports: list[int], events: int) -> None:
    loop = asyncio.get_running_loop()
    for port in ports:
        await loop.create_server(lambda: Engine(events), "127.0.0.1", port, backlog=1024)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve([int(port) for port in sys.argv[2:]], int(sys.argv[1])))
