"""The answers the gateway gives by itself, with a type and a reason: OpenAI-shaped, or Anthropic-shaped where
the API that is asked is Anthropic's.
"""

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

# The types of Anthropic's errors by their status; its SDKs raise by the one and tell the other.
_ANTHROPIC = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def error_body(message: str, kind: str, code: int | str, param: str | None = None) -> bytes:
    """The error object as OpenAI writes it."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return json.dumps({"error": error}, ensure_ascii=False).encode()


def anthropic_body(message: str, status: int, code: int | str) -> bytes:
    """The error object as Anthropic writes it; `code`, which it has not, is the gateway's reason."""
    kind = _ANTHROPIC.get(status, "invalid_request_error" if status < 500 else "api_error")
    error = {"type": kind, "message": message, "code": code}
    return json.dumps({"type": "error", "error": error}, ensure_ascii=False).encode()


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
    anthropic: bool = False,
) -> bytes:
    """A whole error response.  `retry_after_s` goes with every 429 and 503; `extra` are more header lines."""
    told = status if code is None else code
    body = anthropic_body(message, status, told) if anthropic else error_body(message, kind, told, param)
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


def cut_event(message: str, *, anthropic: bool = False) -> bytes:
    """What ends a stream whose engine went away: the half-sent event is closed, then the error said.

    Anthropic's SDKs pass over events without a name.
    """
    if anthropic:
        return b"\n\nevent: error\ndata: " + anthropic_body(message, 502, "upstream_cut") + b"\n\n"
    return b"\n\ndata: " + error_body(message, "upstream_cut", 502) + b"\n\n"
