"""How vLLM says no: its error bodies, as an exception that carries one."""

import json
from typing import Any

_BUSY = (
    "The engine is currently busy and cannot accept new requests. "
    "Please try again later or on a different instance."
)
_BROKEN = "EngineCore encountered an issue. See stack trace (above) for the root cause."


class Refusal(Exception):
    """A request that gets `status` and vLLM's error object instead of an answer."""

    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param

    @property
    def error(self) -> dict[str, Any]:
        """The OpenAI-style object."""
        return {
            "error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        }

    def body(self) -> bytes:
        """As an HTTP body: compact."""
        return json.dumps(self.error, separators=(",", ":"), ensure_ascii=False).encode()

    def event(self) -> bytes:
        """As the payload of an SSE event: vLLM writes this one with spaces."""
        return json.dumps(self.error).encode()


def busy() -> Refusal:
    """The queue is full.  Streams hear it inside a 200."""
    return Refusal(503, _BUSY, "Service Unavailable")


def broken() -> Refusal:
    """The engine failed under way."""
    return Refusal(500, _BROKEN, "InternalServerError")


def bad_value(name: str, value: object, message: str) -> Refusal:
    """A parameter outside its range."""
    return Refusal(400, f"{message} (parameter={name}, value={value})", "BadRequestError", name)


def not_json(body: bytes) -> Refusal:
    """A body that is not JSON."""
    position, reason = 0, "Expecting value"
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        position, reason = error.pos, error.msg
    except UnicodeDecodeError as error:
        position, reason = error.start, "invalid UTF-8"
    return _invalid("json_invalid", f"body.{position}", "JSON decode error", {}, reason)


def missing(field: str, body: Any) -> Refusal:
    """A field that must be there."""
    return _invalid("missing", f"body.{field}", "Field required", body)


def wrong_type(field: str, expected: str, value: Any) -> Refusal:
    """A field of another type."""
    return _invalid(f"{expected}_type", f"body.{field}", f"Input should be a valid {expected}", value)


def unreadable(error: Exception) -> Refusal:
    """A body of the right outline whose details have other types than they should."""
    return Refusal(400, f"1 validation error:\n  {type(error).__name__}: {error}", "Bad Request", "body")


def _invalid(kind: str, where: str, message: str, value: Any, reason: str | None = None) -> Refusal:
    sort = type(value).__name__
    size = f" of {len(value)} items" if isinstance(value, (dict, list)) else ""
    detail = {"type": kind, "loc": where, "msg": message, "input": f"<{sort}{size}>"}
    if reason is not None:
        return Refusal(
            400, f"1 validation error:\n  {detail | {'ctx': {'error': reason}}}", "Bad Request", where
        )
    return Refusal(400, f"1 validation error:\n  {detail}", "Bad Request", where)
