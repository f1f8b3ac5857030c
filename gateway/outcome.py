"""How a relayed request ended, in one word, from what was seen of its answer."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from wire.upstream import Ending


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
    TOO_LARGE = "too_large"
    SHUTDOWN = "shutdown"  # it was ended with the gateway, or with its engine's time after being taken out


# What a stream's last events hold when it came to its own end, in any of the APIs relayed here.  Quotes and
# line feeds inside a text are escaped, so a text that talks of ends or errors does not match.
_ENDED: Final = re.compile(
    rb'"finish_reason"\s*:\s*(?:"[^"]|\{)|(?:^|[\r\n])data:\s*\[DONE\]|'
    rb'"type"\s*:\s*"(?:message_stop|response\.(?:completed|incomplete))"|'
    rb"(?:^|[\r\n])event:\s*(?:message_stop|response\.(?:completed|incomplete))|"
    rb'"stop"\s*:\s*true|"generated_text"\s*:\s*"'
)
_ERROR: Final = re.compile(
    rb'"error"\s*:\s*(?:\{|"[^"])|"object"\s*:\s*"error"|"type"\s*:\s*"(?:error|response\.failed)"|'
    rb"(?:^|[\r\n])(?:event:\s*error|error:)"
)

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


def outcome(ending: Ending, status: int, is_stream: bool, last_reads: Iterable[bytes]) -> Outcome:
    """Judge an answer.  `last_reads` are its last few pieces, oldest first; only streams are looked into."""
    if ending is not Ending.COMPLETE:
        return _FAILED[ending]
    if status >= 500:
        return Outcome.ENGINE_ERROR
    if status >= 400:
        return Outcome.CLIENT_ERROR
    if is_stream:
        tail = b"".join(last_reads)
        if _ERROR.search(tail):
            return Outcome.ERROR_EVENT
        if not _ENDED.search(tail):
            return Outcome.TRUNCATED
    return Outcome.COMPLETE
