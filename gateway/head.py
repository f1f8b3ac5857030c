"""Which header fields pass, both ways: hop-by-hop ones end here, the rest keep name, order and repeats."""

from typing import Final

from wire.http1 import RequestHead
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
_REQUEST_DROPPED: Final = _HOP | {b"host", b"expect", b"via", b"x-forwarded-for", b"x-request-id"}
_ANSWER_DROPPED: Final = _HOP | {b"x-request-id"}
_CREDENTIALS: Final = frozenset({b"authorization", b"x-api-key", b"api-key"})


def named_by_connection(head: RequestHead | ResponseHead) -> frozenset[bytes]:
    """The fields that Connection names, lower-cased: they are hop-by-hop too."""
    named: list[bytes] = []
    for name, (_, value) in zip(head.names, head.headers, strict=True):
        if name == b"connection":
            named += (part.strip().lower() for part in value.split(b","))
    return frozenset(named) - {b"close", b"keep-alive"}


def to_engine(
    head: RequestHead, *, target: bytes, authority: bytes, credential: bytes | None, peer: bytes
) -> bytes:
    """The request's head as the engine gets it, without its framing, its id and the line that ends it.

    `credential`, when there is one, replaces whatever the client sent to prove who it is.  `peer` is the
    client's address.
    """
    dropped = _REQUEST_DROPPED if credential is None else _REQUEST_DROPPED | _CREDENTIALS
    lines = [b"%b %b HTTP/1.1\r\nhost: %b" % (head.method, target, authority), *_kept(head, dropped)]
    if credential is not None:
        lines.append(b"authorization: Bearer " + credential)
    lines.append(b"x-forwarded-for: " + _prepended(head, b"x-forwarded-for", peer))
    lines.append(b"via: %b\r\n" % _prepended(head, b"via", b"1.1 shadowlane"))
    return b"\r\n".join(lines)


def to_client(head: ResponseHead) -> bytes:
    """The answer's head as the client gets it, always HTTP/1.1; without what `to_engine` leaves out too."""
    lines = [b"HTTP/1.1 %d %b" % (head.status, head.reason), *_kept(head, _ANSWER_DROPPED), b""]
    return b"\r\n".join(lines)


def _kept(head: RequestHead | ResponseHead, dropped: frozenset[bytes]) -> list[bytes]:
    names = head.names
    if b"connection" in names:
        dropped = dropped | named_by_connection(head)
    return [
        name + b": " + value
        for low, (name, value) in zip(names, head.headers, strict=True)
        if low not in dropped
    ]


def _prepended(head: RequestHead, name: bytes, own: bytes) -> bytes:
    if name not in head.names:
        return own
    given = [value for low, (_, value) in zip(head.names, head.headers, strict=True) if low == name]
    return b", ".join([*given, own])
