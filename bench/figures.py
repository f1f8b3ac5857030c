"""How the benchmarks say what they found: medians of rounds, ratios with their interval, tables."""

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_RESAMPLES = 4000
_SEED = 1


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median (or what stands in its place) over rounds and its 95 % bootstrap interval."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.low:.2f}, {self.high:.2f}]"


def trimmed_mean(values: Sequence[float], share: float = 0.2) -> float:
    """The mean without so large a share of the smallest and of the largest values (Tukey 1962).

    Where rounds differ as a bell does it needs two thirds of the rounds that a median needs.
    """
    cut = int(share * len(values))
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def trimmed_difference(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """The trimmed mean of the rounds' differences, in the place of the median; the rounds are resampled."""
    return _resampled([a - b for a, b in zip(ours, theirs, strict=True)], trimmed_mean)


def rounds_needed(found: Estimate, bound: float, rounds: int) -> int | None:
    """How many rounds would have the interval end within the bound, should it shrink as their root grows.

    None where the estimate itself lies beyond the bound.
    """
    room = bound - abs(found.median)
    half = max(found.high - found.median, found.median - found.low)
    return None if room <= 0.0 else max(rounds, math.ceil(rounds * (half / room) ** 2))


def median(values: Sequence[float]) -> Estimate:
    """The median over rounds; the rounds are resampled."""
    return _resampled(values, statistics.median)


def _resampled(values: Sequence[float], middle: Callable[[Sequence[float]], float]) -> Estimate:
    rng = random.Random(_SEED)
    found = sorted(middle(rng.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    return Estimate(middle(values), found[int(_RESAMPLES * 0.025)], found[int(_RESAMPLES * 0.975)])


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """The median of the rounds' ratios: both values of a ratio are of one round, minutes of drift cancel."""
    return _paired(ours, theirs, lambda a, b: a / b)


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """The median of the rounds' differences."""
    return _paired(ours, theirs, lambda a, b: a - b)


def _paired(
    ours: Sequence[float], theirs: Sequence[float], join: Callable[[float, float], float]
) -> Estimate:
    return median([join(a, b) for a, b in zip(ours, theirs, strict=True)])


def verdict(found: Estimate, bound: float) -> str:
    """Whether the whole interval, a part of it or nothing of it keeps to the bound."""
    if found.high <= bound:
        return "holds"
    return "undecided" if found.low <= bound else "does not hold"


def equivalence(found: Estimate, bound: float) -> str:
    """Whether the whole interval, a part of it or nothing of it lies within the bound on both sides of zero.

    Stricter than two one-sided tests at 5 % (Schuirmann 1987), whose interval is one of 90 %.
    """
    if -bound <= found.low and found.high <= bound:
        return "equivalent"
    return "undecided" if found.low <= bound and found.high >= -bound else "differs"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they must be; the first to the left, the others to the right."""
    widths = [max(len(row[at]) for row in [header, *rows]) for at in range(len(header))]
    lines = []
    for row in [header, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip())
    return "\n".join(lines)
