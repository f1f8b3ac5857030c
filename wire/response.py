"""HTTP/1.1 answers, sans-IO: bytes in, head and body out.  llhttp (httptools) reads heads and chunks."""

from typing import Final

import httptools

from wire.http1 import Headers, keeps_alive
from wire.known import Known

BODILESS_STATUS: Final = frozenset({204, 304})
_SIZE_DIGITS: Final = 7
_ZERO: Final = 0x30
_NINE: Final = 0x39
_A: Final = 0x41
_F: Final = 0x46
_UPPER: Final = 0xDF
_CR: Final = 0x0D
_LF: Final = 0x0A
_CHUNKED_HEAD: Final = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class ResponseHead:
    """The head of an answer as the engine sent it; `names` are the headers' names in lower case.

    `content_length` and `chunked` are both unset where the body ends with the connection.  Content-Length is
    not among the headers.  `is_events`: the body is an event stream that can be read as it is.  `passed` is
    for whoever passes the head on: what it made of it, so that it need not do so for the next like it.
    """

    __slots__ = (
        "chunked",
        "content_length",
        "headers",
        "is_events",
        "keep_alive",
        "names",
        "passed",
        "reason",
        "status",
    )

    def __init__(
        self,
        status: int,
        reason: bytes,
        headers: Headers,
        names: list[bytes],
        keep_alive: bool,
        content_length: int | None,
        chunked: bool,
        is_events: bool,
        passed: bytes = b"",
    ) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.names = names
        self.keep_alive = keep_alive
        self.content_length = content_length
        self.chunked = chunked
        self.is_events = is_events
        self.passed = passed

    def field(self, name: bytes) -> bytes:
        """The first value of a field, or empty.  `name` is in lower case."""
        names = self.names
        return self.headers[names.index(name)][1] if name in names else b""


class Heads:
    """The heads an origin last answered with: mostly it does so again, within the second of their Date."""

    __slots__ = ("chunked", "chunked_bytes", "sized")

    def __init__(self) -> None:
        self.sized: Known[ResponseHead] | None = None
        self.chunked: ResponseHead | None = None
        self.chunked_bytes = b""

    def remember(self, data: bytes, head: ResponseHead) -> None:
        """`data` is the whole head, and only it."""
        if not head.keep_alive or head.status in BODILESS_STATUS:
            return
        if head.chunked:
            self.chunked, self.chunked_bytes = head, data
        elif head.content_length:
            self.sized = Known.of(data, head)


class ResponseReader:
    """Reads one answer at a time.  `begin` before each; then `feed` until `complete`.

    `feed` returns the body bytes this piece held; the head is in `head` once it came.  Interim
    answers (1xx) are read over.  `framed` is the piece as it came when it was exactly one whole chunk.
    Raises `MalformedAnswer`.
    """

    __slots__ = (
        "_aligned",
        "_bodiless",
        "_heads",
        "_held",
        "_left",
        "_limit",
        "_parser",
        "_reading",
        "_unseen_bytes",
        "complete",
        "framed",
        "head",
        "surplus",
    )

    def __init__(self, head_limit_bytes: int = 64 << 10, heads: Heads | None = None) -> None:
        self._limit = head_limit_bytes
        self._heads = Heads() if heads is None else heads
        self.begin()

    def begin(self, *, bodiless: bool = False) -> None:
        """Await a new answer; `bodiless` when the request was a HEAD."""
        self._bodiless = bodiless
        self._parser: httptools.HttpResponseParser | None = None
        self._aligned = False  # the next byte begins a chunk
        self._held = b""
        self._left = -1
        self._reading: _Reading | None = None
        self._unseen_bytes = 0
        self.head: ResponseHead | None = None
        self.complete = False
        self.framed: bytes | None = None
        self.surplus = False

    def feed(self, data: bytes) -> bytes:
        """Read a piece.  Bytes beyond the message's end set `surplus`: the connection is not to be reused."""
        head = self.head
        if head is None:
            if self._held or self._bodiless:
                head, data = self._read_head(self._held + data)
            else:
                head, data = self._read_known(data)
            if head is None:
                return b""
            self.head = head
        if self.complete:
            self.surplus = self.surplus or bool(data)
            return b""
        if self._left >= 0:
            left = self._left - len(data)
            if left < 0:
                self.surplus = True
                data = data[: self._left]
                left = 0
            self._left = left
            self.complete = left == 0
            return data
        if head.chunked:
            return self._read_chunks(data)
        return data

    def eof(self) -> bool:
        """The connection ended.  True when the answer is whole: complete, or framed by just this end."""
        if self.head is not None and not self.head.chunked and self._left < 0:
            self.complete = True
        return self.complete

    def _read_known(self, data: bytes) -> tuple[ResponseHead | None, bytes]:
        """Read a head that this origin sent before without parsing it; gives it and what follows it."""
        heads = self._heads
        sized = heads.sized
        if sized is not None:
            start, length = sized.read(data)
            if start:
                head = sized.head
                if head.content_length != length:
                    head = ResponseHead(
                        head.status, head.reason, head.headers, head.names, True, length, False,
                        head.is_events, head.passed,
                    )  # fmt: skip
                self._left = length
                return head, data[start:]
        if heads.chunked is not None and data.startswith(heads.chunked_bytes):
            self._aligned = True
            return heads.chunked, data[len(heads.chunked_bytes) :]
        return self._read_head(data)

    @property
    def trailers(self) -> Headers:
        """The fields after the last chunk."""
        return self._reading.trailers if self._reading is not None else []

    def _read_head(self, data: bytes) -> tuple[ResponseHead | None, bytes]:
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
                return None, b""
            self._held = b""
            reading = _Reading()
            parser = httptools.HttpResponseParser(reading)
            raw = data[: end + 4]
            try:
                parser.feed_data(raw)
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
        head = reading.head(status, parser.get_http_version())
        if self._bodiless or status in BODILESS_STATUS or (reading.length == 0 and not reading.chunked):
            self.complete = True
            return head, data
        if reading.chunked:
            self._aligned = True
        elif reading.length is not None:
            self._left = reading.length
        self._heads.remember(raw, head)
        return head, data

    def _read_chunks(self, data: bytes) -> bytes:
        if self._aligned:
            # Nearly every read is one whole chunk, or the last one: what these are is seen at a glance.
            start = _whole_chunk(data)
            if start:
                self.framed = data
                return data[start:-2]
            if data == b"0\r\n\r\n":
                self.complete = True
                return b""
        self.framed = None
        reading, parser = self._reading, self._parser
        if reading is None or parser is None:
            if not data:
                return b""
            reading = self._reading = _Reading()
            parser = self._parser = httptools.HttpResponseParser(reading)
            parser.feed_data(_CHUNKED_HEAD)
        try:
            parser.feed_data(data)
        except httptools.HttpParserError as error:
            # llhttp reads on into whatever follows the last chunk and stumbles there; the message is whole.
            if not reading.complete:
                raise MalformedAnswer(str(error) or "not HTTP") from None
            self.surplus = True
        self._aligned = not reading.in_chunk and data.endswith(b"\r\n")
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


def _whole_chunk(data: bytes) -> int:
    """Where the bytes begin of which `data` is exactly one chunk, without extensions; 0 when it is not that.

    In plain steps: compiled, they are a few machine instructions each, where a pattern would make objects and
    a search that is told from where costs more than all of this.
    """
    whole = len(data)
    most = min(whole, _SIZE_DIGITS)
    size = at = 0
    while at < most:
        digit = data[at]
        if _ZERO <= digit <= _NINE:
            digit -= _ZERO
        elif _A <= digit & _UPPER <= _F:
            digit = (digit & _UPPER) - _A + 10
        else:
            break
        size = size * 16 + digit
        at += 1
    if not at or whole != at + size + 4 or data[0] == _ZERO:
        return 0
    if data[at] != _CR or data[at + 1] != _LF or data[whole - 2] != _CR or data[whole - 1] != _LF:
        return 0
    return at + 2


class MalformedAnswer(Exception):
    """What the engine sent is not an HTTP/1.1 answer."""


class _Reading:
    """Receives llhttp's callbacks for one answer."""

    __slots__ = (
        "chunked",
        "coding",
        "complete",
        "headers",
        "in_chunk",
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
        self.in_chunk = False
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
        low = name.lower()
        if low == b"content-length":
            self.length = int(value)
            return
        self.headers.append((name, value))
        self.names.append(low)
        if low == b"transfer-encoding":
            self.chunked = True
            self.coding += value  # a second coding makes it one not understood

    def on_headers_complete(self) -> None:
        self.in_head = False

    def on_body(self, piece: bytes) -> None:
        if not self.complete:
            self.pieces.append(piece)

    def on_chunk_header(self) -> None:
        self.in_chunk = True

    def on_chunk_complete(self) -> None:
        self.in_chunk = False

    def on_message_complete(self) -> None:
        self.complete = True

    def head(self, status: int, version: str) -> ResponseHead:
        """The head, once it was read."""
        # llhttp forgets what it read of a message that ends with its head.
        keep_alive = keeps_alive(version, self.names, self.headers)
        head = ResponseHead(
            status, self.reason, self.headers, self.names, keep_alive, self.length, self.chunked,
            is_events=False,
        )  # fmt: skip
        media = head.field(b"content-type").lower()
        head.is_events = media.startswith(b"text/event-stream") and not head.field(b"content-encoding")
        return head
