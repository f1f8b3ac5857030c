"""Which web pages may ask, and how their browsers are told (the Fetch standard's CORS protocol).

When the gateway deals with it, it alone does: what engines say about it is left out, and every answer has the
gateway's fields, refusals and streams too.  A preflight carries no credentials and is answered before any are
asked for.
"""

from typing import Final

from gateway.clients import answers
from gateway.spec import CorsSpec
from wire.http1 import Headers, RequestHead
from wire.response import ResponseHead

_METHODS: Final = b"GET, HEAD, POST, DELETE, OPTIONS"
_ASKED_METHOD: Final = b"access-control-request-method"
_ASKED_HEADERS: Final = b"access-control-request-headers"
_VARY: Final = (b"Vary", b"Origin")


def is_preflight(request: RequestHead) -> bool:
    """A browser asks, before it lets a page ask."""
    return request.method == b"OPTIONS" and b"origin" in request.names and _ASKED_METHOD in request.names


class Grant:
    """What one request's answer says about who may read it."""

    __slots__ = ("_fields", "_lines")

    def __init__(self, fields: Headers) -> None:
        self._fields = fields
        self._lines = b"".join(b"%b: %b\r\n" % field for field in fields)

    def over(self, head: ResponseHead) -> ResponseHead:
        """An engine's head with the gateway's word in place of the engine's."""
        headers: Headers = []
        names: list[bytes] = []
        for name, field in zip(head.names, head.headers, strict=True):
            if not name.startswith(b"access-control-"):
                headers.append(field)
                names.append(name)
        headers += self._fields
        names += [name.lower() for name, _ in self._fields]
        return ResponseHead(
            head.status, head.reason, headers, names, head.keep_alive, head.content_length, head.chunked,
            head.is_events,
        )  # fmt: skip

    def into(self, answer: bytes) -> bytes:
        """An answer of the gateway's own, with these fields after its status line."""
        line, _, rest = answer.partition(b"\r\n")
        return b"%b\r\n%b%b" % (line, self._lines, rest)


class Cors:
    """The operator's rules."""

    __slots__ = ("_echoes", "_headers", "_lasts", "_origins", "_rest")

    def __init__(self, spec: CorsSpec) -> None:
        self._origins = frozenset(origin.encode() for origin in spec.allow_origins)
        self._echoes = "*" in spec.allow_headers
        self._headers = ", ".join(spec.allow_headers).encode()
        self._lasts = b"%d" % int(spec.max_age_s)
        self._rest: Headers = []
        if spec.allow_credentials:
            self._rest.append((b"Access-Control-Allow-Credentials", b"true"))
        if spec.expose_headers:
            self._rest.append((b"Access-Control-Expose-Headers", ", ".join(spec.expose_headers).encode()))

    def grant(self, request: RequestHead) -> Grant:
        """What the answer to `request` is to say; for a page that is not allowed, only that it depends."""
        if b"*" in self._origins:
            return Grant([(b"Access-Control-Allow-Origin", b"*"), *self._rest])
        origin = request.field(b"origin")
        if origin not in self._origins:
            return Grant([_VARY])
        return Grant([(b"Access-Control-Allow-Origin", origin), *self._rest, _VARY])

    def preflight(self, request: RequestHead, *, close: bool) -> bytes:
        """The answer to a preflight but for what its grant says."""
        if b"*" not in self._origins and request.field(b"origin") not in self._origins:
            said = request.field(b"origin")[:200].decode("latin-1")
            message = f"pages of {said} may not ask here; cors.allow_origins of the gateway lists who may"
            return answers.refusal(403, "permission_error", message, code="origin", close=close)
        asked = request.field(_ASKED_HEADERS)
        fields: Headers = [
            (b"Access-Control-Allow-Methods", _METHODS),
            (b"Access-Control-Max-Age", self._lasts),
        ]
        if self._echoes:
            fields.append((b"Vary", b"Access-Control-Request-Headers"))
        if asked:
            fields.append((b"Access-Control-Allow-Headers", asked if self._echoes else self._headers))
        return Grant(fields).into(answers.nothing(close=close))


def options(path: str, *, close: bool) -> bytes:
    """The whole answer to an OPTIONS that is no preflight."""
    allow = "GET, HEAD, OPTIONS" if path in ("/v1/models", "/health", "/ping") else _METHODS.decode()
    return answers.nothing([f"Allow: {allow}"], close=close)
