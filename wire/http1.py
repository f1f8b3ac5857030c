"""HTTP/1.1 requests, sans-IO: bytes in, events out.  llhttp (httptools) does the parsing.

llhttp runs in its strict mode: both framings at once, repeated or signed lengths, bare line feeds,
folded headers and blanks before a colon are errors, so no two readers can disagree about where a
message ends.  What llhttp does not bound, the head, is bounded here.

A client's requests on one connection mostly have the same head but for Content-Length.  Such a head is
recognised by its bytes and not parsed again: parsing it would give the same.
"""

from collections.abc import Iterable
from typing import Final

import httptools
import msgspec

from wire.known import Known
from wire.target import origin_form

Headers = list[tuple[bytes, bytes]]


class RequestHead:
    """The head of a request as the client sent it; header names keep their case, order and repeats.

    `target` begins with a path, unless what the client wrote is neither that nor a URL that has one.

    `names` are the same names in lower case, in the same order.  Content-Length is not among them: it is
    `content_length`.
    """

    __slots__ = (
        "chunked",
        "content_length",
        "headers",
        "keep_alive",
        "method",
        "names",
        "target",
        "upgrade",
        "version",
    )

    def __init__(
        self,
        method: bytes,
        target: bytes,
        headers: Headers,
        names: list[bytes],
        version: str,
        keep_alive: bool,
        content_length: int | None,
        chunked: bool,
        upgrade: bool,
    ) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.names = names
        self.version = version
        self.keep_alive = keep_alive
        self.content_length = content_length
        self.chunked = chunked
        self.upgrade = upgrade

    def with_length(self, content_length: int) -> "RequestHead":
        """The same head of a body of another length."""
        return RequestHead(
            self.method, self.target, self.headers, self.names, self.version, self.keep_alive,
            content_length, self.chunked, self.upgrade,
        )  # fmt: skip

    def with_headers(self, headers: Headers, names: list[bytes]) -> "RequestHead":
        """The same head with other fields."""
        return RequestHead(
            self.method, self.target, headers, names, self.version, self.keep_alive,
            self.content_length, self.chunked, self.upgrade,
        )  # fmt: skip

    def field(self, name: bytes) -> bytes:
        """The first value of a field, or empty.  `name` is in lower case."""
        names = self.names
        return self.headers[names.index(name)][1] if name in names else b""

    @property
    def expects_continue(self) -> bool:
        return self.version == "1.1" and self.field(b"expect").lower() == b"100-continue"


# What is made several times a request is a msgspec struct: as frozen as a dataclass, far cheaper to make.


class Body(msgspec.Struct, frozen=True, gc=False):
    """A piece of the body, without its framing."""

    piece: bytes


class End(msgspec.Struct, frozen=True, gc=False):
    """The message is complete."""


class Malformed(msgspec.Struct, frozen=True, gc=False):
    """What came is not HTTP/1.1, or too large; the connection can only be closed.

    `status` is the answer it deserves: 400, 431 (head too large), 501 or 505.
    """

    reason: str
    status: int = 400


Event = RequestHead | Body | End | Malformed

_TOO_LARGE: Final = Malformed("the request's head is too large", 431)
_END: Final = End()


def keeps_alive(version: str, names: list[bytes], headers: Headers) -> bool:
    """Whether another message may follow on the connection (RFC 9112 9.3); `close` outweighs `keep-alive`."""
    if b"connection" not in names:
        return version == "1.1"
    options = {
        option.strip().lower()
        for name, (_, value) in zip(names, headers, strict=True)
        if name == b"connection"
        for option in value.split(b",")
    }
    return b"close" not in options and (version == "1.1" or b"keep-alive" in options)


def _known(data: bytes, head: RequestHead) -> Known[RequestHead] | None:
    """`head`, parsed from the beginning of `data`, if its like may be recognised by its bytes."""
    plain = head.keep_alive and not head.upgrade and b"expect" not in head.names
    if head.content_length is None or not plain or not data.startswith(head.method):
        return None
    return Known.of(data, head)


class RequestReader:
    """Reads the requests of one client connection, pipelined ones included."""

    __deletable__ = ("_parser",)  # the compiler asks for it

    def __init__(self, head_limit_bytes: int = 64 << 10) -> None:
        self._limit = head_limit_bytes
        self._parser = httptools.HttpRequestParser(self)
        self._events: list[Event] = []
        self._in_head = True
        self._head_bytes = 0
        self._fed_bytes = 0
        self._target = b""
        self._headers: Headers = []
        self._names: list[bytes] = []
        self._dead = False
        self._switches = False  # the request asks to go on in another protocol
        self._has_switched = False  # so what comes is no HTTP any more
        self._rest: list[bytes] = []
        self.rest_bytes = 0
        self._between = True  # no byte of a next message came yet
        self._known: Known[RequestHead] | None = None
        self._left = 0  # body bytes to come of a request whose head was known

    def whole(self, data: bytes, head: RequestHead) -> bytes | None:
        """The body, when `data` is exactly one request with the head `head`, read before, but for its length.

        None, and nothing is read, when it is anything else: then `feed` it.
        """
        known = self._known
        if known is None or known.head is not head or not self._between:
            return None
        start, length = known.read(data)
        if not start or len(data) - start != length:
            return None
        self._head_bytes = 0  # of empty lines before it
        return data[start:]

    def feed(self, data: bytes) -> list[Event]:
        """Return what `data` completes.  After `Malformed`, or a head with `upgrade`, nothing more comes."""
        if self._has_switched:
            self._keep(data)
            return []
        if self._known is None:
            return self._parsed(data)
        events: list[Event] = []
        while data and not self._dead:
            if self._left:
                piece = data[: self._left]
                data = data[len(piece) :]
                self._left -= len(piece)
                events.append(Body(piece))
                if not self._left:
                    self._between = True
                    events.append(_END)
                continue
            start, length = self._known.read(data) if self._between else (0, 0)
            if not start:
                return events + self._parsed(data)
            self._between = False
            self._head_bytes = 0
            self._left = length
            events.append(self._known.head.with_length(length))
            data = data[start:]
        return events

    def _parsed(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        self._events = events
        was_between = self._between
        self._fed_bytes = self._head_bytes + len(data)
        if self._dead:
            return events
        try:
            self._parse(data)
        except httptools.HttpParserError as error:
            if not self._dead:
                self._die(Malformed(str(error) or "not HTTP"))
            return events
        if not self._dead:
            # llhttp keeps a half-read header, trailer or chunk extension to itself, so what it was fed is
            # counted, not what it told.
            self._head_bytes = 0 if events else self._head_bytes + len(data)
            if self._head_bytes > self._limit:
                self._die(_TOO_LARGE)
            elif was_between and events:
                first = events[0]
                self._known = _known(data, first) if isinstance(first, RequestHead) else None
        self._events = []  # or an idle connection would hold the last piece of its last body
        return events

    def close(self) -> None:
        """Nothing more will be fed.  Else this and its parser keep one another alive until a collection."""
        self._dead = True
        self._known = None
        del self._parser

    def take_rest(self) -> bytes:
        """What came behind a head that asks for another protocol; `rest_bytes` counts it."""
        rest, self._rest, self.rest_bytes = b"".join(self._rest), [], 0
        return rest

    def _keep(self, data: bytes) -> None:
        if data:
            self._rest.append(data)
            self.rest_bytes += len(data)

    @property
    def is_halfway(self) -> bool:
        """Bytes came that made no event yet: part of a head, of a trailer, of a chunk's first line.

        Empty lines between requests (RFC 9112 2.2) begin nothing.
        """
        return self._head_bytes > 0 and not self._between

    def _parse(self, data: bytes) -> None:
        while True:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as stopped:
                if self._switches:
                    self._dead = self._has_switched = True
                    self._keep(data[stopped.args[0] :])
                    return
                data = self._without_offer() + data[stopped.args[0] :]
            self._parser = httptools.HttpRequestParser(self)

    def _without_offer(self) -> bytes:
        """The head as if it offered no other protocol: httptools reads no body after one that does."""
        del self._events[-2:]  # the head and its supposed end
        version = self._parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self._parser.get_method(), self._target, version)]
        lines += [name + b": " + value for name, value in self._headers if name.lower() != b"upgrade"]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def _die(self, event: Malformed) -> None:
        self._dead = True
        self._events.append(event)

    def _size(self) -> int:
        return len(self._target) + sum(len(name) + len(value) + 4 for name, value in self._headers)

    # llhttp's callbacks

    def on_message_begin(self) -> None:
        self._between = False
        self._in_head = True
        self._head_bytes = 0
        self._target = b""
        self._headers = []
        self._names = []

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # what comes after the body is a trailer: dropped, as RFC 9110 6.5.1 allows
            self._headers.append((name, value))
            self._names.append(name.lower())

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._dead:
            return  # llhttp reads on to the end of what it was fed
        parser, headers, names = self._parser, self._headers, self._names
        length = int(headers[names.index(b"content-length")][1]) if b"content-length" in names else None
        coding = headers[names.index(b"transfer-encoding")][1] if b"transfer-encoding" in names else None
        version = parser.get_http_version()
        refusal: Malformed | None = None
        hosts = names.count(b"host")
        if self._fed_bytes > self._limit and self._size() > self._limit:
            refusal = _TOO_LARGE
        elif version not in ("1.1", "1.0"):
            refusal = Malformed("only HTTP/1.1 and HTTP/1.0 are spoken here", 505)
        elif hosts > 1 or (hosts == 0 and version == "1.1"):
            refusal = Malformed("a request needs exactly one Host")
        elif coding is not None and (coding.lower() != b"chunked" or version == "1.0"):
            refusal = Malformed("the only transfer coding understood is chunked, in HTTP/1.1", 501)
        if refusal is not None:
            self._die(refusal)
        elif length is not None:
            at = names.index(b"content-length")
            headers, names = headers.copy(), names.copy()
            del headers[at], names[at]
        # Java's client offers h2c with every first request and is served in HTTP/1.1; what HTTP/1.0 offers is
        # to be passed over (RFC 9110 7.8).
        self._switches = parser.should_upgrade() and not (
            b"upgrade" in names
            and (version == "1.0" or headers[names.index(b"upgrade")][1].lower() == b"h2c")
        )
        if self._dead:
            return
        method: bytes = parser.get_method()
        self._events.append(
            RequestHead(
                method,
                self._target if self._target.startswith(b"/") else origin_form(method, self._target),
                headers,
                names,
                version,
                parser.should_keep_alive() and (version == "1.1" or keeps_alive(version, names, headers)),
                length,
                coding is not None,
                self._switches,
            )
        )

    def on_body(self, piece: bytes) -> None:
        if not self._dead:
            self._events.append(Body(piece))

    def on_message_complete(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        self._between = True
        if not self._dead:
            self._events.append(_END)


def request_bytes(method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> bytes:
    """A whole request with its length stated.  The caller gives `host`; framing headers are ours.

    Raises ValueError when a header or the target would break out of its line.
    """
    lines = [f"{method} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body or method not in ("GET", "HEAD", "DELETE", "OPTIONS"):
        lines.append(f"content-length: {len(body)}")
    head = "\r\n".join(lines)
    if head.count("\r\n") != len(lines) - 1 or head.count("\n") != len(lines) - 1 or "\0" in head:
        raise ValueError("a header holds a line break")
    return head.encode("latin-1") + b"\r\n\r\n" + body
