"""What an event stream begins with, seen from its first bytes: engines say "busy" inside a 200.

Until the first whole event it is still open whether this engine will answer at all, so a relay that holds
these few bytes may yet try another engine.  Comments pass at once: they are not part of the answer.
"""

import re

import msgspec

# Two line ends, each of any kind: proxies mix theirs with the engine's.
_EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
_LIMIT_BYTES = 64 << 10


class Seen(msgspec.Struct, frozen=True, gc=False):
    """`passed` may be sent on now.  `began`: the first event is whole (or will never be: give up watching).

    `error_code` is set when that event is an error, `error_text` is then its message.
    """

    passed: bytes
    began: bool = False
    error_code: int | None = None
    error_text: str = ""


class FirstEvent:
    """Watches a stream until its first event is whole."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = b""

    @property
    def held(self) -> bytes:
        return self._held

    def feed(self, data: bytes) -> Seen:
        """Take a piece; see `Seen`.  Not to be called again once `began`."""
        held = self._held + data if self._held else data
        passed = b""
        while held:
            end = _EVENT_END.search(held)
            if end is None:
                break
            block = held[: end.end()]
            if _is_comment(block):
                passed += block
                held = held[end.end() :]
                continue
            self._held = b""
            code, text = _error_in(block)
            return Seen(passed + held, True, code, text)
        if len(held) > _LIMIT_BYTES:
            self._held = b""
            return Seen(passed + held, True)
        self._held = held
        return Seen(passed)


def _is_comment(block: bytes) -> bool:
    return all(not line or line.startswith(b":") for line in block.splitlines())


class _Error(msgspec.Struct):
    code: int | str | None = None
    message: str = ""


class _Payload(msgspec.Struct):
    error: _Error | str | None = None


_decode = msgspec.json.Decoder(_Payload).decode


def _error_in(block: bytes) -> tuple[int | None, str]:
    if b'"error"' not in block:
        return None, ""
    data = b"".join(line[5:].strip() for line in block.splitlines() if line.startswith(b"data:"))
    try:
        error = _decode(data).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, ""
    if error is None:
        return None, ""
    if isinstance(error, str):
        return 500, error
    code = error.code
    if isinstance(code, str):
        code = int(code) if code.isascii() and code.isdigit() and len(code) == 3 else None
    return (500 if code is None else code), error.message
