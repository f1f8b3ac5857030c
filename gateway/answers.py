"""The answers the gateway gives by itself: OpenAI-shaped, with a type and a reason."""

import json
from collections.abc import Sequence

_PHRASES = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
}

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def error_body(message: str, kind: str, code: int | str, param: str | None = None) -> bytes:
    """The error object as OpenAI writes it."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return json.dumps({"error": error}, ensure_ascii=False).encode()


def refusal(
    status: int,
    kind: str,
    message: str,
    *,
    code: int | str | None = None,
    param: str | None = None,
    retry_after_s: int | None = None,
    extra: Sequence[str] = (),
    close: bool = False,
    bodiless: bool = False,
) -> bytes:
    """A whole error response.  `retry_after_s` goes with every 429 and 503; `extra` are more header lines."""
    body = error_body(message, kind, status if code is None else code, param)
    wait = () if retry_after_s is None else (f"Retry-After: {max(1, retry_after_s)}",)
    return whole(status, body, (*wait, *extra), close=close, bodiless=bodiless)


def whole(
    status: int,
    body: bytes,
    extra: Sequence[str] = (),
    *,
    content_type: str = "application/json",
    close: bool = False,
    bodiless: bool = False,
) -> bytes:
    """A whole response; `bodiless` leaves out the body and keeps its length (HEAD)."""
    lines = [
        f"HTTP/1.1 {status} {_PHRASES[status]}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
    ]
    lines += extra
    if close:
        lines.append("Connection: close")
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return head if bodiless else head + body


def nothing(extra: Sequence[str] = (), *, close: bool = False) -> bytes:
    """A whole answer without a body: 204."""
    lines = ["HTTP/1.1 204 No Content", *extra, *(["Connection: close"] if close else [])]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def cut_event(message: str, *, named: bool = False) -> bytes:
    """What ends a stream whose engine went away: the half-sent event is closed, then the error said.

    `named`: as Anthropic's API says it; its SDKs pass over events without a name.
    """
    body = error_body(message, "upstream_cut", 502)
    if named:
        return b'\n\nevent: error\ndata: {"type": "error", ' + body[1:] + b"\n\n"
    return b"\n\ndata: " + body + b"\n\n"
