"""Which request for another protocol is relayed, and what of it is written anew."""

from typing import Final
from urllib.parse import parse_qsl, quote_plus

from gateway.paths import Asked
from wire.http1 import Headers, RequestHead

_PATHS: Final = frozenset({"/v1/realtime"})
_OFFERED: Final = b"sec-websocket-protocol"
# How a browser, which cannot set headers, proves who it is.
_KEY: Final = b"openai-insecure-api-key."


def fault(request: RequestHead, asked: Asked) -> tuple[int, str] | None:
    """Why a request for another protocol is not relayed, with the status that says so; None where it is."""
    if request.field(b"upgrade").lower() != b"websocket" or request.method == b"CONNECT":
        return 501, "of other protocols only WebSocket is relayed"
    if asked.path not in _PATHS:
        return 501, f"WebSocket is relayed at {', '.join(sorted(_PATHS))} only"
    if request.method != b"GET" or request.version != "1.1":
        return 400, "a WebSocket begins with a GET of HTTP/1.1"
    if request.chunked or request.content_length:
        return 400, "a WebSocket's handshake has no body"
    if not request.field(b"sec-websocket-key") or not request.field(b"sec-websocket-version"):
        return 400, "a WebSocket's handshake needs Sec-WebSocket-Key and Sec-WebSocket-Version"
    return None


def model(target: bytes) -> str | None:
    """The model the query names; of several the last."""
    named = [value for name, value in _query(target) if name == "model"]
    return named[-1] if named else None


def renamed(target: bytes, name: str) -> bytes:
    """The target with another model's name, and every other parameter as it was."""
    path, mark, query = target.partition(b"?")
    own = b"model=" + quote_plus(name).encode()
    parts = [
        own if [key for key, _ in _query(b"?" + part)] == ["model"] else part for part in query.split(b"&")
    ]
    return path + mark + b"&".join(parts)


def key(request: RequestHead) -> bytes:
    """The key that a browser offers among the subprotocols, or empty."""
    for name, (_, value) in zip(request.names, request.headers, strict=True):
        if name == _OFFERED:
            for offer in value.split(b","):
                if (offer := offer.strip()).startswith(_KEY):
                    return offer[len(_KEY) :]
    return b""


def without_key(request: RequestHead) -> RequestHead:
    """The handshake without a key among its subprotocols: that is not for the engine."""
    if _OFFERED not in request.names:
        return request
    headers: Headers = []
    names: list[bytes] = []
    for name, (given, value) in zip(request.names, request.headers, strict=True):
        if name == _OFFERED:
            offers = [part.strip() for part in value.split(b",")]
            value = b", ".join(offer for offer in offers if not offer.startswith(_KEY))
            if not value:
                continue
        headers.append((given, value))
        names.append(name)
    return request.with_headers(headers, names)


def _query(target: bytes) -> list[tuple[str, str]]:
    query = target.partition(b"?")[2].decode("latin-1")
    return parse_qsl(query, keep_blank_values=True)
