"""Where in a prompt's tokens do its messages end?  By a token that the chat template writes once a message.

The probe finds such a token (`marker`): an end marker, or a start marker, of which the generation prompt has
one more. Special tokens are walls: what stands before one is the same whatever follows. Where a prompt does
not have as many of them as it has messages, nothing is said of it.
"""

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from routing.bridge.fit import Fit
from routing.chain import CUT_BYTES

_LEAST_PROMPTS: Final = 4


class Marker(Struct, frozen=True):
    """`token` is once in each message; `is_start`: at its start, and once more at the prompt's end."""

    token: int
    is_start: bool


def marker(prompts: Sequence[tuple[int, Sequence[int]]]) -> Marker | None:
    """The token that tells messages apart in these (number of messages, token ids); None where none does."""
    if len(prompts) < _LEAST_PROMPTS or len({messages for messages, _ in prompts}) < 2:
        return None
    counts = [(messages, Counter(ids)) for messages, ids in prompts]
    for is_start in (False, True):
        found = [
            token
            for token in counts[0][1]
            if all(count[token] == messages + is_start for messages, count in counts)
        ]
        if found:
            # Of several (the end marker and the line break after it) the first one written.
            ids = prompts[0][1]
            return Marker(min(found, key=lambda token: _index(ids, token)), is_start)
    return None


def message_ends(ends: Sequence[int], said: Fit, ids: Sequence[int], marker: Marker) -> list[tuple[int, int]]:
    """(bytes, tokens) at the end of each message but the last; empty where it cannot be told.

    `ends` are those of the prompt's text chain.
    """
    messages, has_system = len(said.roles), said.roles[:1] in (["system"], ["developer"])
    pieces = [end for end in _piece_ends(ends) if end > said.front_bytes]
    at = [place for place, token in enumerate(ids) if token == marker.token]
    at = at[1:] if marker.is_start else [place + 1 for place in at]
    extra = len(at) - messages  # a system message that the template adds, for tools, say
    if len(pieces) != messages or extra not in ((0,) if has_system else (0, 1)):
        return []
    return list(zip(pieces[:-1], at[extra:], strict=False))


def _index(ids: Sequence[int], token: int) -> int:
    return array("q", ids).index(token)


def _piece_ends(ends: Sequence[int]) -> list[int]:
    """The ends of pieces among the links of a text chain (`routing.chain`).

    A piece of whole KBs is taken for the beginning of the next one: then there are too few, which is noticed.
    """
    found: list[int] = []
    start = 0
    for at, end in enumerate(ends):
        if (end - start) % CUT_BYTES or at == len(ends) - 1:
            found.append(end)
            start = end
    return found
