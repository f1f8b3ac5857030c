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
_REQUEST_DROPPED = _HOP | {b"host", b"expect", b"via", b"x-forwarded-for", b"x-request-id"}
_ANSWER_DROPPED: Final = _HOP | {b"x-request-id"}
# Servers that put headers into environment variables read these as their namesakes.
_REQUEST_DROPPED |= {name.replace(b"-", b"_") for name in _REQUEST_DROPPED if b"-" in name}
# Who says where a request comes from, or that it is a copy, is believed only when the operator trusts him.
_CLAIMS: Final = (b"x-forwarded-", b"x_forwarded_", b"x-shadowlane-", b"x_shadowlane_")
_CLAIM: Final = frozenset({b"forwarded", b"x-real-ip", b"x_real_ip"})
# RFC 9110 6.5.1: framing, routing, authentication, what controls caches and how content is understood.
_HEAD_ONLY: Final = _HOP | {
    b"host",
    b"authorization",
    b"www-authenticate",
    b"set-cookie",
    b"cookie",
    b"cache-control",
    b"expires",
    b"age",
    b"date",
    b"location",
    b"vary",
    b"retry-after",
    b"expect",
    b"range",
}
_NONE: Final[frozenset[bytes]] = frozenset()
_CREDENTIALS: Final = frozenset({b"authorization", b"x-api-key", b"api-key"})


def named_by_connection(head: RequestHead | ResponseHead) -> frozenset[bytes]:
    """The fields that Connection names, lower-cased: they are hop-by-hop too."""
    named: list[bytes] = []
    for name, (_, value) in zip(head.names, head.headers, strict=True):
        if name == b"connection":
            named += (part.strip().lower() for part in value.split(b","))
    return frozenset(named) - {b"close", b"keep-alive"}


def claims(names: list[bytes]) -> frozenset[bytes]:
    """Those of `names` that say where a request comes from: no word of a stranger's."""
    joined = b" ".join(names)  # one look at all of them: nearly always there are none
    if b"forwarded" not in joined and b"shadowlane" not in joined and b"real" not in joined:
        return _NONE
    return frozenset(name for name in names if name in _CLAIM or name.startswith(_CLAIMS))


def to_engine(
    head: RequestHead,
    *,
    target: bytes,
    authority: bytes,
    credential: bytes | None,
    peer: bytes,
    trusted: bool = False,
    hides_credential: bool = False,
) -> bytes:
    """The request's head as the engine gets it, without its framing, its id and the line that ends it.

    `credential`, when there is one, replaces whatever the client sent to prove who it is; where that is the
    gateway's own business (`hides_credential`) no engine is told it.  `peer` is the client's address; only
    when it is `trusted` does what it says of others before it pass.
    """
    keeps = credential is None and not hides_credential
    dropped = _REQUEST_DROPPED if keeps else _REQUEST_DROPPED | _CREDENTIALS
    if not trusted:
        dropped = dropped | claims(head.names)
    lines = [b"%b %b HTTP/1.1\r\nhost: %b" % (head.method, target, authority), *_kept(head, dropped)]
    if credential is not None:
        lines.append(b"authorization: Bearer " + credential)
    lines.append(b"x-forwarded-for: " + (_prepended(head, b"x-forwarded-for", peer) if trusted else peer))
    lines.append(b"via: %b\r\n" % _prepended(head, b"via", b"%b shadowlane" % head.version.encode()))
    if takes_trailers(head):
        lines.insert(1, b"connection: te\r\nte: trailers")
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


def takes_trailers(head: RequestHead) -> bool:
    """Whether the client said that it reads what comes after the last chunk."""
    return b"te" in head.names and any(
        part.strip().lower() == b"trailers"
        for name, (_, value) in zip(head.names, head.headers, strict=True)
        if name == b"te"
        for part in value.split(b",")
    )


def trailer_lines(trailers: Headers) -> bytes:
    """An engine's trailers as the client gets them, but for those that a head alone may hold."""
    return b"".join(
        b"%b: %b\r\n" % (name, value)
        for name, value in trailers
        if (low := name.lower()) not in _HEAD_ONLY and not low.startswith((b"content-", b"access-control-"))
    )


def _prepended(head: RequestHead, name: bytes, own: bytes) -> bytes:
    if name not in head.names:
        return own
    given = [value for low, (_, value) in zip(head.names, head.headers, strict=True) if low == name]
    return b", ".join([*given, own])
