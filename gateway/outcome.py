"""How a relayed request ended, in one word, from what was seen of its answer."""

import re
from enum import StrEnum
from typing import Final, Protocol

from wire.exchange import Ending


class Outcome(StrEnum):
    """The label under which a request is counted."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"  # a clean end, and yet the stream says neither why it stopped nor [DONE]
    ERROR_EVENT = "error_event"  # an error inside a 200
    CLIENT_ERROR = "client_error"  # the engine answered 4xx
    ENGINE_ERROR = "engine_error"  # the engine answered 5xx
    CUT = "cut"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    FULL = "full"  # no connection left to make on the gateway's side
    MALFORMED = "malformed"
    CLIENT_GONE = "client_gone"
    NO_ENGINE = "no_engine"
    LIMITED = "limited"  # not let in: a limit, or no room
    TOO_LARGE = "too_large"
    SHUTDOWN = "shutdown"  # it was ended with the gateway, or with its engine's time after being taken out


# What the last events of a stream hold that came to its own end, and what those hold that say an error, in
# any of the APIs relayed here.  Quotes and line feeds inside a text are escaped, so a text that talks of ends
# or errors does not match.  Each pattern begins with letters, which are searched for fast: one pattern of
# alternatives would cost ten times as much.
_ENDED: Final = (
    re.compile(rb'"finish_reason"\s*:\s*(?:"[^"]|\{)'),
    re.compile(rb'"type"\s*:\s*"(?:message_stop|response\.(?:completed|incomplete))"'),
    re.compile(rb'"stop"\s*:\s*true'),
    re.compile(rb'"generated_text"\s*:\s*"'),
)
_ENDED_LINES: Final = (
    re.compile(rb"data:\s*\[DONE\]"),
    re.compile(rb"event:\s*(?:message_stop|response\.(?:completed|incomplete))"),
)
_ERROR: Final = (
    re.compile(rb'"error"\s*:\s*(?:\{|"[^"])'),
    re.compile(rb'"object"\s*:\s*"error"'),
    re.compile(rb'"type"\s*:\s*"(?:error|response\.failed)"'),
)
_ERROR_LINES: Final = (re.compile(rb"event:\s*error"), re.compile(rb"error:"))

# A token: content, reasoning, a tool call's arguments, or a native text delta that is not empty.
FIRST_TOKEN: Final = re.compile(
    rb'"(?:content|reasoning_content|reasoning|text|thinking|arguments|partial_json|delta|refusal)"'
    rb'\s*:\s*"[^"]|"tool_calls"\s*:\s*\[\s*\{|"(?:output_ids|token)"\s*:'
)

_FAILED: Final = {
    Ending.CUT: Outcome.CUT,
    Ending.TIMEOUT: Outcome.TIMEOUT,
    Ending.REFUSED: Outcome.REFUSED,
    Ending.FULL: Outcome.FULL,
    Ending.MALFORMED: Outcome.MALFORMED,
    Ending.CANCELLED: Outcome.CLIENT_GONE,
    Ending.SHUTDOWN: Outcome.SHUTDOWN,
}


class Stream(Protocol):
    """What was seen of an event stream."""

    @property
    def has_error(self) -> bool: ...

    @property
    def has_ended(self) -> bool: ...


def outcome(ending: Ending, status: int, stream: Stream | None) -> Outcome:
    """Judge an answer; `stream` is what was seen of it where it was an event stream."""
    if ending is not Ending.COMPLETE:
        return _FAILED[ending]
    if status >= 500:
        return Outcome.ENGINE_ERROR
    if status >= 400:
        return Outcome.CLIENT_ERROR
    if stream is not None:
        if stream.has_error:
            return Outcome.ERROR_EVENT
        if not stream.has_ended:
            return Outcome.TRUNCATED
    return Outcome.COMPLETE


def says_error(part: bytes, *, from_start: bool = True) -> bool:
    """Whether a part of a stream says that something went wrong.  `from_start`: it begins with a line."""
    if part.rfind(b"error") < 0 and part.rfind(b"response.failed") < 0:
        return False  # nearly always
    return _holds(part, _ERROR, _ERROR_LINES, from_start=from_start)


def says_end(part: bytes, *, from_start: bool = True) -> bool:
    """Whether a part of a stream says why it stopped, or that it is done."""
    return _holds(part, _ENDED, _ENDED_LINES, from_start=from_start)


def _holds(
    part: bytes,
    fields: tuple[re.Pattern[bytes], ...],
    lines: tuple[re.Pattern[bytes], ...],
    *,
    from_start: bool,
) -> bool:
    return any(field.search(part) for field in fields) or any(
        part[found.start() - 1] in b"\r\n" if found.start() else from_start
        for line in lines
        for found in line.finditer(part)
    )
