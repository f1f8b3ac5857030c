"""How do two texts look beside each other?  Word under word from a little before they part, marked below."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import islice

_BEFORE = 32  # characters of what both say before they part
_WORDS = 400  # of each, from there on
_WIDTH = 88
_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_SHOWN = {"\n": "⏎", "\t": "⇥", "\x1e": "¦", "\x1f": "¦"}  # the last two stand between the parts of an answer


def beside(at: int, ours: tuple[str, str], theirs: tuple[str, str]) -> Iterator[str]:
    """Lines of two named texts that part at character `at`: ^ where they do, ~ where they differ after it."""
    begin = max(0, at - _BEFORE)
    head = ("…" if begin else "") + printable(ours[1][begin:at])
    a, b, marks = [head], [head], [" " * len(head)]
    one, other = _words(ours[1][at:]), _words(theirs[1][at:])
    for kind, i, j, k, m in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        left, right = printable("".join(one[i:j])), printable("".join(other[k:m]))
        longest = max(len(left), len(right))
        a.append(left.ljust(longest))
        b.append(right.ljust(longest))
        marks.append((" " if kind == "equal" else "~") * longest)
    below = "".join(marks)
    below = below[: len(head)] + "^" + below[len(head) + 1 :]
    width = max(len(ours[0]), len(theirs[0]))
    rows = [(ours[0], "".join(a)), (theirs[0], "".join(b)), ("", below)]
    for start in range(0, len(below), _WIDTH):
        for name, row in rows:
            if line := row[start : start + _WIDTH].rstrip():
                yield f"  {name:<{width}}  {line}"
        if start + _WIDTH < len(below):
            yield ""


def printable(text: str) -> str:
    """The text on one line, in which nothing commands a terminal."""
    return "".join(_SHOWN.get(c, c if c.isprintable() else "·") for c in text)


def _words(text: str) -> list[str]:
    words = [found.group() for found in islice(_WORD.finditer(text), _WORDS + 1)]
    return words if len(words) <= _WORDS else [*words[:_WORDS], "…"]
