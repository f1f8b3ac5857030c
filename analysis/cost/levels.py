"""Under which loads did an arm run?  Its slices, sorted by how many requests were sent while they lasted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from statistics import median
from typing import Final

from analysis.cost.tally import Slice

# Loads are told apart as multiples of the usual one.
MULTIPLIERS: Final = (0.125, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
# A second with many requests is no load: one must have lasted so long.
_STRETCH_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Level:
    """A load that lasted: `multiplier` times the usual, and the slices under it, by time."""

    multiplier: float
    slices: tuple[Slice, ...]

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.slices)

    @property
    def requests_per_s(self) -> float:
        return sum(one.requests for one in self.slices) / self.seconds


def levels(runs: Sequence[Sequence[Slice]]) -> list[Level]:
    """The loads, lightest first.  `runs` are slices without a pause between them.

    Each run is cut into stretches of a minute or more, so that requests that happen to come together are not
    taken for a load; the median of the stretches' rates is the usual load.
    """
    stretches = [stretch for run in runs for stretch in _stretches(run)]
    stretches = [one for one in stretches if _rate(one) > 0.0]
    if not stretches:
        return []
    usual = median(_rate(one) for one in stretches)
    found: dict[float, list[Slice]] = {}
    for stretch in stretches:
        apart = log(_rate(stretch) / usual)
        multiplier = min(MULTIPLIERS, key=lambda one: abs(log(one) - apart))
        found.setdefault(multiplier, []).extend(stretch)
    return [
        Level(multiplier, tuple(sorted(slices, key=lambda one: one.begin_ns)))
        for multiplier, slices in sorted(found.items())
    ]


def _stretches(run: Sequence[Slice]) -> Iterator[list[Slice]]:
    """About as long each, none under a minute unless the run is."""
    if not run:
        return
    seconds = sum(one.seconds for one in run)
    parts = max(1, int(seconds / _STRETCH_S))
    cuts = [len(run) * n // parts for n in range(parts + 1)]
    yield from (list(run[begin:end]) for begin, end in pairwise(cuts) if end > begin)


def _rate(stretch: Sequence[Slice]) -> float:
    return sum(one.requests for one in stretch) / sum(one.seconds for one in stretch)
