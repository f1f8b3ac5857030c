"""When did an answer's tokens come?  Its gaps in few bytes, and as a row of blocks to compare by eye."""

from collections.abc import Sequence
from itertools import pairwise
from math import log2
from typing import Final

SLOTS: Final = 64
_LEAST_MS: Final = 0.05
_STEPS: Final = 11  # to a factor of two: what is read back is within 3.2 % of what was, up to 8 minutes
_MOST: Final = 255
_BLOCKS: Final = "▁▂▃▄▅▆▇█"


def strip_of(gaps_ms: Sequence[float]) -> bytes:
    """The longest gap of each of at most 64 equal parts of the answer, a byte each; "" without gaps."""
    n = len(gaps_ms)
    parts = min(SLOTS, n)
    ends = [at * n // parts for at in range(parts + 1)] if parts else [0]
    longest = [max(gaps_ms[begin:end]) for begin, end in pairwise(ends)]
    codes = [round(_STEPS * log2(gap / _LEAST_MS)) if gap > _LEAST_MS else 0 for gap in longest]
    return bytes(codes if max(codes, default=0) <= _MOST else [min(_MOST, code) for code in codes])


def gaps_of(strip: bytes) -> list[float]:
    """The gaps of a strip in ms."""
    return [_LEAST_MS * 2.0 ** (code / _STEPS) for code in strip]


def drawn(strip: bytes, least_ms: float, most_ms: float) -> str:
    """A block for each gap, from `least_ms` to `most_ms` by their logs: the same for all arms of a pair."""
    reach = log2(most_ms / least_ms) if most_ms > least_ms > 0.0 else 1.0
    places = (log2(max(gap, least_ms) / least_ms) / reach for gap in gaps_of(strip))
    return "".join(_BLOCKS[min(len(_BLOCKS) - 1, int(place * len(_BLOCKS)))] for place in places)
