"""Recognising a message's head by its bytes: one parsed before, but for the digits of its Content-Length.

Parsing it again would give the same, so it is not parsed again.
"""

import re
from typing import Final, Generic, TypeVar

_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([1-9][0-9]{0,14})\r\n", re.IGNORECASE)
_LIMIT_BYTES: Final = 8 << 10
_DIGITS: Final = 15

Head = TypeVar("Head")


class Known(Generic[Head]):
    """A head that was parsed, and the bytes around its Content-Length's digits."""

    __slots__ = ("after", "before", "head")

    def __init__(self, head: Head, before: bytes, after: bytes) -> None:
        self.head = head
        self.before = before
        self.after = after

    @classmethod
    def of(cls, data: bytes, head: Head) -> "Known[Head] | None":
        """`head`, parsed from the beginning of `data`; None when it is long or states no length above 0."""
        end = data.find(b"\r\n\r\n", 0, _LIMIT_BYTES)
        length = _LENGTH.search(data, 0, end + 2) if end > 0 else None
        return None if length is None else cls(head, data[: length.start(1)], data[length.end(1) : end + 4])

    def read(self, data: bytes) -> tuple[int, int]:
        """Where the body begins and its length, if `data` begins with such a head; else (0, 0).

        In plain steps: a method of bytes that is given places costs more than all of this, compiled.
        """
        if not data.startswith(self.before):
            return 0, 0
        begun = at = len(self.before)
        most = min(len(data), begun + _DIGITS)
        length = 0
        while at < most:
            digit = data[at] - 48
            if not 0 <= digit <= 9:
                break
            length = length * 10 + digit
            at += 1
        if at == begun or data[begun] == 48:  # a leading zero: not worth an opinion here
            return 0, 0
        start = at + len(self.after)
        return (start, length) if data[at:start] == self.after else (0, 0)
