"""Where a body names its model: at the top level of JSON, in a part of a form; in whole or partial bodies."""

import json
import re
from dataclasses import dataclass
from typing import Final

# A string, or a bracket: all that matters for knowing how deep one is.  A string that does not end within the
# body still matches, to the body's end: else each quote in it would be tried as a beginning, which takes
# hours for a few megabytes of them.  Possessive, as there is nothing to be gained by stepping back.
MARK = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)|[{}\[\]]', re.DOTALL)
_COLON = re.compile(rb"\s*+:\s*+")
_MOST_MARKS = 400_000  # a tenth of a second's worth; no prompt has as many strings

_BOUNDARY: Final = re.compile(rb';\s*boundary=(?:"([^"]+)"|([^\s;"]+))', re.IGNORECASE)
_MODEL_PART: Final = re.compile(rb'^content-disposition:[^\r\n]*;\s*name="?model"?\s*(?:;|\r?$)', re.I | re.M)
_FILE_PART: Final = re.compile(rb";\s*filename\*?=", re.IGNORECASE)
_MOST_PARTS = 1_000
_LONGEST_PART_HEAD_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class ModelName:
    """The model's name, and where it stands in the body: `body[start:end]`, in JSON with its quotes."""

    name: str
    start: int
    end: int


def find(body: bytes, content_type: bytes = b"") -> ModelName | None:
    """Find the model's name; None when it is not (yet) there or not a string.

    It is the value of the top-level key "model": of several the last, as JSON decoders, and so the engines,
    have it.  In a multipart body, as `content_type` tells it, it is the part of that name.
    """
    return _in_form(body, content_type) if is_form(content_type) else _in_json(body)


def renamed(body: bytes, name: str, content_type: bytes = b"") -> bytes:
    """The body with its model's name replaced and every other byte as it was."""
    found = find(body, content_type)
    if found is None:
        return body
    new = name if is_form(content_type) else json.dumps(name, ensure_ascii=False)
    return body[: found.start] + new.encode() + body[found.end :]


def is_form(content_type: bytes) -> bool:
    """Whether a body of this type consists of parts between boundaries (RFC 7578), and is no JSON."""
    return content_type[:10].lower() == b"multipart/"


def _in_json(body: bytes) -> ModelName | None:
    found: ModelName | None = None
    said_again: bool | None = None
    depth = 0
    at = 0
    for _ in range(_MOST_MARKS):
        mark = MARK.search(body, at)
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
            value = MARK.match(body, colon.end())
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


def _is_model(key: bytes) -> bool:
    if key == b'"model"':
        return True
    try:
        return b"\\" in key and len(key) < 64 and json.loads(key) == "model"
    except ValueError:
        return False


def _in_form(body: bytes, content_type: bytes) -> ModelName | None:
    given = _BOUNDARY.search(content_type)
    if given is None:
        return None
    mark = b"\r\n--" + (given[1] or given[2])
    at = -2 if body.startswith(mark[2:]) else body.find(mark)  # the first may stand at the very beginning
    for _ in range(_MOST_PARTS):
        begin = at + len(mark)
        end = body.find(mark, begin)
        if end < 0 or at == -1:
            return None
        head_end = body.find(b"\r\n\r\n", begin, begin + _LONGEST_PART_HEAD_BYTES)
        if 0 <= head_end < end:
            head = body[begin:head_end]
            if _MODEL_PART.search(head) and not _FILE_PART.search(head):
                return ModelName(body[head_end + 4 : end].decode("utf-8", "replace"), head_end + 4, end)
        at = end
    return None
