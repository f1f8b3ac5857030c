"""HTTP/1.1 answers, sans-IO: bytes in, head and body out.  llhttp (httptools) reads heads and chunks."""

from typing import Final

import httptools
import msgspec

from wire.http1 import Headers

BODILESS_STATUS: Final = frozenset({204, 304})


class ResponseHead(msgspec.Struct, frozen=True, gc=False):
    """The head of an answer as the engine sent it; `names` are the headers' names in lower case.

    `content_length` and `chunked` are both unset where the body ends with the connection.
    """

    status: int
    reason: bytes
    headers: Headers
    names: list[bytes]
    keep_alive: bool
    content_length: int | None
    chunked: bool

    def field(self, name: bytes) -> bytes:
        """The first value of a field, or empty.  `name` is in lower case."""
        names = self.names
        return self.headers[names.index(name)][1] if name in names else b""

    @property
    def is_events(self) -> bool:
        """The body is an event stream that can be read as it is."""
        media = self.field(b"content-type").lower()
        return media.startswith(b"text/event-stream") and not self.field(b"content-encoding")


class ResponseReader:
    """Reads one answer at a time.  `begin` before each; then `feed` until `complete`.

    `feed` returns the body bytes this piece held; the head is in `head` once it came.  Interim
    answers (1xx) are read over.  Raises `MalformedAnswer`.
    """

    __slots__ = (
        "_bodiless",
        "_held",
        "_left",
        "_limit",
        "_parser",
        "_reading",
        "_unseen_bytes",
        "complete",
        "head",
        "surplus",
    )

    def __init__(self, head_limit_bytes: int = 64 << 10) -> None:
        self._limit = head_limit_bytes
        self.begin()

    def begin(self, *, bodiless: bool = False) -> None:
        """Await a new answer; `bodiless` when the request was a HEAD."""
        self._bodiless = bodiless
        self._parser: httptools.HttpResponseParser | None = None
        self._held = b""
        self._left = -1
        self._reading: _Reading | None = None
        self._unseen_bytes = 0
        self.head: ResponseHead | None = None
        self.complete = False
        self.surplus = False

    def feed(self, data: bytes) -> bytes:
        """Read a piece.  Bytes beyond the message's end set `surplus`: the connection is not to be reused."""
        if self.head is None:
            data = self._held + data if self._held else data
            data = self._read_head(data)
            if self.head is None:
                return b""
        if self.complete:
            self.surplus = self.surplus or bool(data)
            return b""
        if self._parser is not None:
            return self._read_chunks(data)
        if self._left >= 0:
            size = len(data)
            if size > self._left:
                self.surplus = True
                data = data[: self._left]
            self._left -= len(data)
            self.complete = self._left == 0
        return data

    def eof(self) -> bool:
        """The connection ended.  True when the answer is whole: complete, or framed by just this end."""
        if self.head is not None and self._parser is None and self._left < 0:
            self.complete = True
        return self.complete

    @property
    def trailers(self) -> Headers:
        """The fields after the last chunk."""
        return self._reading.trailers if self._reading is not None else []

    def _read_head(self, data: bytes) -> bytes:
        while True:
            if not b"HTTP/1.".startswith(data[:7]):
                raise MalformedAnswer("the answer does not begin like HTTP/1.1")
            end = data.find(b"\r\n\r\n")
            if end < 0 or end > self._limit:
                if len(data) > self._limit:
                    raise MalformedAnswer("the answer's head is too large")
                self._held = data
                if b"\n\n" in data:
                    raise MalformedAnswer("the answer's head ends with bare line feeds")
                return b""
            self._held = b""
            reading = _Reading()
            parser = httptools.HttpResponseParser(reading)
            try:
                parser.feed_data(data[: end + 4])
            except httptools.HttpParserError as error:
                raise MalformedAnswer(str(error) or "not HTTP") from None
            except httptools.HttpParserUpgrade:
                raise MalformedAnswer("the engine switched protocols unasked") from None
            data = data[end + 4 :]
            status = parser.get_status_code()
            if status >= 200:
                break
            if status == 101:
                raise MalformedAnswer("the engine switched protocols unasked")
            if status < 100:
                raise MalformedAnswer("the answer's status is no status")
        if b"\0" in reading.reason:
            raise MalformedAnswer("the answer's status line holds a NUL")
        if reading.chunked and reading.coding.lower() != b"chunked":
            raise MalformedAnswer("the answer uses a transfer coding other than chunked")
        self.head = ResponseHead(
            status,
            reading.reason,
            reading.headers,
            reading.names,
            parser.should_keep_alive(),
            reading.length,
            reading.chunked,
        )
        if self._bodiless or status in BODILESS_STATUS or (reading.length == 0 and not reading.chunked):
            self.complete = True
        elif reading.chunked:
            self._parser = parser
            self._reading = reading
        elif reading.length is not None:
            self._left = reading.length
        return data

    def _read_chunks(self, data: bytes) -> bytes:
        assert self._parser is not None and self._reading is not None
        reading = self._reading
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            # llhttp reads on into whatever follows the last chunk and stumbles there; the message is whole.
            if not reading.complete:
                raise MalformedAnswer(str(error) or "not HTTP") from None
            self.surplus = True
        if reading.complete:
            self.complete = True
            self.surplus = self.surplus or reading.surplus
        pieces = reading.pieces
        # llhttp keeps a half-read trailer to itself, however long.
        self._unseen_bytes = 0 if pieces else self._unseen_bytes + len(data)
        if self._unseen_bytes > self._limit:
            raise MalformedAnswer("the answer's trailers or chunk extensions are too large")
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return body


class MalformedAnswer(Exception):
    """What the engine sent is not an HTTP/1.1 answer."""


class _Reading:
    """Receives llhttp's callbacks for one answer."""

    __slots__ = (
        "chunked",
        "coding",
        "complete",
        "headers",
        "in_head",
        "length",
        "names",
        "pieces",
        "reason",
        "surplus",
        "trailers",
    )

    def __init__(self) -> None:
        self.headers: Headers = []
        self.trailers: Headers = []
        self.names: list[bytes] = []
        self.reason = b""
        self.length: int | None = None
        self.chunked = False
        self.coding = b""
        self.in_head = True
        self.complete = False
        self.surplus = False
        self.pieces: list[bytes] = []

    def on_message_begin(self) -> None:
        self.surplus = self.complete

    def on_status(self, reason: bytes) -> None:
        self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.in_head:
            if not self.complete:
                self.trailers.append((name, value))
            return
        self.headers.append((name, value))
        low = name.lower()
        self.names.append(low)
        if low == b"content-length":
            self.length = int(value)
        elif low == b"transfer-encoding":
            self.chunked = True
            self.coding += value  # a second coding makes it one not understood

    def on_headers_complete(self) -> None:
        self.in_head = False

    def on_body(self, piece: bytes) -> None:
        if not self.complete:
            self.pieces.append(piece)

    def on_message_complete(self) -> None:
        self.complete = True
