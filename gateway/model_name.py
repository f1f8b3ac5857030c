"""Where a JSON body names its model: wherever it stands at the top level, in a whole or a partial body."""

import json
import re
from dataclasses import dataclass

# A string, or a bracket: all that matters for knowing how deep one is.  A string that does not end within the
# body still matches, to the body's end: else each quote in it would be tried as a beginning, which takes
# hours for a few megabytes of them.  Possessive, as there is nothing to be gained by stepping back.
_MARK = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)|[{}\[\]]', re.DOTALL)
_COLON = re.compile(rb"\s*+:\s*+")
_MOST_MARKS = 400_000  # a tenth of a second's worth; no prompt has as many strings


@dataclass(frozen=True, slots=True)
class ModelName:
    """The model's name, and where its JSON string stands in the body: `body[start:end]`, quotes included."""

    name: str
    start: int
    end: int


def find(body: bytes) -> ModelName | None:
    """Find the value of the top-level key "model"; None when it is not (yet) there or not a string.

    Of several the last counts, as it does for JSON decoders, and so for the engines.
    """
    found: ModelName | None = None
    said_again: bool | None = None
    depth = 0
    at = 0
    for _ in range(_MOST_MARKS):
        mark = _MARK.search(body, at)
        if mark is None:
            break
        at = mark.end()
        first = body[mark.start()]
        if first in b"{[":
            depth += 1
        elif first in b"}]":
            depth -= 1
            if depth <= 0:
                break
        elif not mark[1]:
            break  # the body ends within this string
        elif depth == 1 and _is_model(mark.group()):
            colon = _COLON.match(body, at)
            if colon is None:
                continue  # a value, not a key
            value = _MARK.match(body, colon.end())
            if value is None or body[value.start()] != ord('"') or not value[1]:
                found = None
                continue
            at = value.end()
            try:
                found = ModelName(json.loads(value.group()), value.start(), value.end())
            except ValueError:  # an escape or a byte that JSON does not know: the engine's to judge
                found = None
            if said_again is None:  # asked once: the answer takes a look at all that is left
                said_again = body.find(b'"model"', at) >= 0 or body.find(b"\\u006", at) >= 0  # in escapes
            if not said_again:
                break
    return found


def renamed(body: bytes, name: str) -> bytes:
    """The body with its model's name replaced and every other byte as it was."""
    found = find(body)
    if found is None:
        return body
    return body[: found.start] + json.dumps(name, ensure_ascii=False).encode() + body[found.end :]


def _is_model(key: bytes) -> bool:
    if key == b'"model"':
        return True
    try:
        return b"\\" in key and len(key) < 64 and json.loads(key) == "model"
    except ValueError:
        return False
