"""Which header fields pass, both ways: hop-by-hop ones end here, the rest keep name, order and repeats."""

from typing import Final

from wire.http1 import Headers, RequestHead
from wire.response import ResponseHead

# RFC 9110 7.6.1; Host and the framing are written anew for each hop.
_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"content-length",
    }
)
_REQUEST_DROPPED: Final = _HOP | {b"host", b"expect", b"via", b"x-forwarded-for"}
_CREDENTIALS: Final = frozenset({b"authorization", b"x-api-key", b"api-key"})


def named_by_connection(headers: Headers) -> frozenset[bytes]:
    """The fields that Connection names, lower-cased: they are hop-by-hop too."""
    names: list[bytes] = []
    for name, value in headers:
        if len(name) == 10 and name.lower() == b"connection":
            names += (part.strip().lower() for part in value.split(b","))
    return frozenset(names) - {b"close", b"keep-alive"}


def to_engine(
    head: RequestHead,
    *,
    target: bytes,
    authority: bytes,
    framing: bytes,
    credential: bytes | None,
    peer: bytes,
) -> bytes:
    """The request's head as the engine gets it.

    `framing` is a whole field line (`content-length: 3`) or empty.  `credential`, when there is one,
    replaces whatever the client sent to prove who it is.  `peer` is the client's address.
    """
    dropped = _REQUEST_DROPPED
    if credential is not None:
        dropped = dropped | _CREDENTIALS
    named = named_by_connection(head.headers)
    if named:
        dropped = dropped | named
    lines = [head.method + b" " + target + b" HTTP/1.1", b"host: " + authority]
    via = forwarded = b""
    for name, value in head.headers:
        lowered = name.lower()
        if lowered not in dropped:
            lines.append(name + b": " + value)
        elif lowered == b"via":
            via += value + b", "
        elif lowered == b"x-forwarded-for":
            forwarded += value + b", "
    if credential is not None:
        lines.append(b"authorization: Bearer " + credential)
    lines.append(b"x-forwarded-for: " + forwarded + peer)
    lines.append(b"via: " + via + b"1.1 shadowlane")
    if framing:
        lines.append(framing)
    lines.append(b"\r\n")
    return b"\r\n".join(lines)


def to_client(head: ResponseHead, framing: bytes, *, close: bool) -> bytes:
    """The answer's head as the client gets it, always HTTP/1.1.  `framing` as in `to_engine`."""
    named = named_by_connection(head.headers)
    dropped = _HOP | named if named else _HOP
    lines = [b"HTTP/1.1 %d %b" % (head.status, head.reason)]
    for name, value in head.headers:
        if name.lower() not in dropped:
            lines.append(name + b": " + value)
    if framing:
        lines.append(framing)
    if close:
        lines.append(b"Connection: close")
    lines.append(b"\r\n")
    return b"\r\n".join(lines)


def field(headers: Headers, name: bytes) -> bytes:
    """The first value of a field, or empty.  `name` is lower-case."""
    width = len(name)
    for given, value in headers:
        if len(given) == width and given.lower() == name:
            return value
    return b""
