"""Members of a JSON object, set or taken out where they stand; every other byte of it stays as it was."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

# All that matters for knowing how deep one is: where strings begin, and brackets.
_MARK: Final = re.compile(rb'["{}\[\]]')
_SCALAR: Final = re.compile(rb"[^\s,}\]]++")
_BLANK: Final = re.compile(rb"[ \t\r\n]*+")
_MOST_MARKS: Final = 200_000  # a tenth of a second's worth; no prompt has as many strings
_BOM: Final = b"\xef\xbb\xbf"
_ESCAPE: Final = ord("\\")


class NotAnObject(ValueError):
    """The text is no JSON object, or has more in it than is looked through."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member: `text[start:end]`, with its key's quotes; the value is `text[value:end]`."""

    key: str
    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class Object:
    """An object's members in their order; `close` is where its last bracket stands."""

    text: bytes
    members: tuple[Member, ...]
    close: int

    def raw(self, key: str) -> bytes | None:
        """The value of a member as it is written; of several the last, as decoders have it."""
        found = [one for one in self.members if one.key == key]
        return self.text[found[-1].value : found[-1].end] if found else None

    def has(self, key: str) -> bool:
        return any(one.key == key for one in self.members)

    def spliced(self, put: Mapping[str, bytes], drop: Collection[str] = ()) -> bytes:
        """The text with the members of `put` set, in place or at the end, and those of `drop` taken out.

        A key that stands there more than once then stands once: engines differ in which they would take.
        """
        gone = [one for one in self.members if one.key in drop]
        set_at: dict[str, Member] = {}
        for one in self.members:
            if one.key in put:
                if one.key in set_at:
                    gone.append(set_at[one.key])
                set_at[one.key] = one
        added = [key for key in put if key not in set_at]
        if not gone and not added and not set_at:
            return self.text
        out: list[bytes] = []
        kept = [one for one in self.members if one not in gone]
        begin = self.members[0].start if self.members else self.close
        out.append(self.text[:begin])
        for at, one in enumerate(kept):
            if at:
                out.append(self._between(kept[at - 1]))
            if one.key in put:
                out += self.text[one.start : one.value], put[one.key]
            else:
                out.append(self.text[one.start : one.end])
        for at, key in enumerate(added):
            out.append(b"," if at or kept else b"")
            out += json.dumps(key).encode(), b":", put[key]
        out.append(self.text[self.members[-1].end if self.members else self.close :])
        return b"".join(out)

    def _between(self, before: Member) -> bytes:
        """The comma after a member, with the blanks around it."""
        following = self.members[self.members.index(before) + 1]
        return self.text[before.end : following.start]


def read(text: bytes) -> Object:
    """The members of the object that `text` is.  Raises NotAnObject."""
    at = _blanks(text, 3 if text[:3] == _BOM else 0)
    if text[at : at + 1] != b"{":
        raise NotAnObject("not an object")
    members: list[Member] = []
    at = _blanks(text, at + 1)
    left = _MOST_MARKS
    while text[at : at + 1] != b"}":
        if text[at : at + 1] != b'"':
            raise NotAnObject(f"no key at byte {at}")
        key_end, left = _string_end(text, at, left)
        colon = _blanks(text, key_end)
        if text[colon : colon + 1] != b":":
            raise NotAnObject(f"no colon at byte {colon}")
        value = _blanks(text, colon + 1)
        end, left = _value_end(text, value, left)
        members.append(Member(_word(text[at:key_end]), at, value, end))
        at = _blanks(text, end)
        if text[at : at + 1] == b",":
            at = _blanks(text, at + 1)
        elif text[at : at + 1] != b"}":
            raise NotAnObject(f"neither a comma nor an end at byte {at}")
    return Object(text, tuple(members), at)


def _value_end(text: bytes, at: int, left: int) -> tuple[int, int]:
    """Where the value that begins there ends, and how many marks may still be looked at."""
    first = text[at : at + 1]
    if first == b'"':
        return _string_end(text, at, left)
    if first not in (b"{", b"["):
        found = _SCALAR.match(text, at)
        if found is None:
            raise NotAnObject(f"no value at byte {at}")
        return found.end(), left
    depth = 0
    while left > 0:
        mark = _MARK.search(text, at)
        if mark is None:
            break
        left -= 1
        at = mark.end()
        byte = text[mark.start()]
        if byte in b"{[":
            depth += 1
        elif byte in b"}]":
            depth -= 1
            if not depth:
                return at, left
        else:
            at, left = _string_end(text, mark.start(), left)
    raise NotAnObject("it does not end, or has too much in it")


def _string_end(text: bytes, at: int, left: int) -> tuple[int, int]:
    """Behind the quote that ends a string.  A search for quotes is many times as fast as any pattern."""
    while left > 0:
        at = text.find(b'"', at + 1)
        if at < 0:
            break
        left -= 1
        escapes = at
        while text[escapes - 1] == _ESCAPE:
            escapes -= 1
        if not (at - escapes) & 1:
            return at + 1, left
    raise NotAnObject("a string that does not end, or too much in it")


def _blanks(text: bytes, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _word(key: bytes) -> str:
    try:
        return str(json.loads(key))
    except ValueError:
        raise NotAnObject("a key that is no JSON string") from None
