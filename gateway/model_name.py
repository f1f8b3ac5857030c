"""Where a JSON body names its model: wherever it stands at the top level, in a whole or a partial body."""

import json
import re
from dataclasses import dataclass

# A string, or a bracket: all that matters for knowing how deep one is.  An unfinished string matches nothing.
_MARK = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.DOTALL)
_COLON = re.compile(rb"\s*:\s*")


@dataclass(frozen=True, slots=True)
class ModelName:
    """The model's name, and where its JSON string stands in the body: `body[start:end]`, quotes included."""

    name: str
    start: int
    end: int


def find(body: bytes) -> ModelName | None:
    """Find the value of the top-level key "model"; None when it is not (yet) there or not a string."""
    depth = 0
    at = 0
    while (mark := _MARK.search(body, at)) is not None:
        at = mark.end()
        first = body[mark.start()]
        if first in b"{[":
            depth += 1
        elif first in b"}]":
            depth -= 1
        elif depth == 1 and mark.group() == b'"model"':
            colon = _COLON.match(body, at)
            if colon is None:
                continue  # a value, not a key
            value = _MARK.match(body, colon.end())
            if value is None or body[value.start()] != ord('"'):
                return None
            try:
                return ModelName(json.loads(value.group()), value.start(), value.end())
            except ValueError:  # an escape or a byte that JSON does not know: the engine's to judge
                return None
    return None


def renamed(body: bytes, name: str) -> bytes:
    """The body with its model's name replaced and every other byte as it was."""
    found = find(body)
    if found is None:
        return body
    return body[: found.start] + json.dumps(name, ensure_ascii=False).encode() + body[found.end :]
