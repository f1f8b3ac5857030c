"""How tokens reach the socket: SSE events as HTTP chunks, written straight to the transport.

aiohttp's StreamResponse.write is a coroutine per write; at thousands of tokens a second that is most of
the cost, so the head and the chunks are written here, without awaiting, and aiohttp only keeps the
connection.
"""

import asyncio
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import msgspec
from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import HttpVersion11

_encode = msgspec.json.Encoder().encode
DONE = b"data: [DONE]\n\n"
_CACHE = 50_000


class Streamed(web.StreamResponse):
    """Tells aiohttp that the answer has been written already."""

    def __init__(self, keep_alive: bool) -> None:
        super().__init__(headers={hdrs.CONTENT_TYPE: "text/event-stream; charset=utf-8"})
        self._may_stay = keep_alive

    @property
    def keep_alive(self) -> bool | None:
        """Whether the connection may serve another request."""
        return self._may_stay

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Nothing to prepare."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing to end."""


class Channel:
    """One streamed answer: `head`, events, `end`."""

    __slots__ = ("chunked", "keep_alive", "transport", "written")

    def __init__(self, request: web.BaseRequest) -> None:
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client left")
        self.transport: asyncio.Transport = transport
        self.chunked = request.version >= HttpVersion11
        self.keep_alive = request.keep_alive and self.chunked
        self.written = 0  # writes so far, for the keep-alive comments

    def head(self) -> None:
        """Status 200 and the headers; sent at once, as vLLM does, before anything is computed."""
        framing = b"transfer-encoding: chunked\r\n" if self.chunked else b""
        connection = b"" if self.keep_alive else b"connection: close\r\n"
        date = format_datetime(datetime.now(UTC), usegmt=True).encode()
        self.send(
            b"HTTP/1.1 200 OK\r\ndate: %b\r\nserver: uvicorn\r\n"
            b"content-type: text/event-stream; charset=utf-8\r\n%b%b\r\n" % (date, framing, connection)
        )

    def send(self, chunk: bytes) -> None:
        """Write ready bytes; nothing once the client is gone, whose handler may not have heard of it yet."""
        self.written += 1
        if not self.transport.is_closing():
            self.transport.write(chunk)

    def framed(self, event: bytes) -> bytes:
        """An event's text as one HTTP chunk."""
        return b"%x\r\n%b\r\n" % (len(event), event) if self.chunked else event

    def write(self, *events: bytes) -> None:
        """Send events, one HTTP chunk each, in one write."""
        self.send(b"".join(map(self.framed, events)))

    def end(self, *events: bytes) -> None:
        """Send the last events and close the body."""
        tail = b"0\r\n\r\n" if self.chunked else b""
        self.send(b"".join(map(self.framed, events)) + tail)
        if not self.keep_alive:
            self.transport.close()

    def cut(self) -> None:
        """Break the connection."""
        self.transport.abort()


class JsonTexts(dict[str, bytes]):
    """Strings as JSON, kept: the same word pieces come again and again."""

    def __missing__(self, text: str) -> bytes:
        if len(self) >= _CACHE:
            self.clear()
        self[text] = encoded = _encode(text)
        return encoded


class Frame:
    """An event with a hole for a JSON string, ready as an HTTP chunk."""

    __slots__ = ("_after", "_before", "_length", "_texts")

    def __init__(self, template: dict[str, Any], texts: JsonTexts, event: str | None = None) -> None:
        """`template` holds the string "\\0" where the text goes."""
        before, after = data_event(template, event).split(b'"\\u0000"')
        self._before = before
        self._after = after + b"\r\n"
        self._length = len(before) + len(after)
        self._texts = texts

    def chunk(self, text: str) -> bytes:
        """The HTTP chunk with `text` in the hole."""
        encoded = self._texts[text]
        return b"%x\r\n%b%b%b" % (self._length + len(encoded), self._before, encoded, self._after)


def data_event(payload: Any, event: str | None = None) -> bytes:
    """An SSE event with a JSON payload."""
    if event is None:
        return b"data: %b\n\n" % _encode(payload)
    return b"event: %b\ndata: %b\n\n" % (event.encode(), _encode(payload))
