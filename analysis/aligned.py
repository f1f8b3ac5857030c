"""Where do two answers part?  The first character that differs and both lengths of each choice: no text."""

from itertools import islice

from rapidfuzz.distance import Prefix

from analysis.metrics._metric import matched, spoken
from analysis.transcript import Content

Parting = tuple[int, int, int]  # the first character that differs, the control's length, the other's
_MOST_CHOICES = 8


def partings(control: Content, other: Content) -> tuple[Parting, ...]:
    """Of each choice, in characters; equal choices part at their end.  The first eight choices."""
    found = []
    for ours, theirs in islice(matched(control, other), _MOST_CHOICES):
        a, b = spoken(ours), spoken(theirs)
        found.append((Prefix.similarity(a, b), len(a), len(b)))
    return tuple(found)
