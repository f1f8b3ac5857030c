"""Which figures of a recording does its model remember, to be held against what is made of it?

None behind which fewer than `FEW` requests stand, and of lengths and pauses only means of so many.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from workload.fidelity import APART, Compared
from workload.figures import FIGURES, Figure, Seen
from workload.shape import FEW

_DIGITS = 4


def remembered(seen: Seen) -> dict[str, float]:
    """Figures by their names."""
    found = {figure.name: _told(figure, seen) for figure in FIGURES}
    return {name: float(f"{value:.{_DIGITS}g}") for name, value in found.items() if value is not None}


def _told(figure: Figure, seen: Seen) -> float | None:
    if figure.values is not None:
        return _middle(figure.values(seen), 1 - figure.tail)
    value = figure.of(seen)
    if value is None or not figure.is_share:
        return value
    of = len(seen.rows) if figure.group == "tasks" else len(seen.talks)
    return None if 0 < value * of < FEW or 0 < (1 - value) * of < FEW else value


def _middle(values: Sequence[float], share: float) -> float | None:
    """About the value below which `share` lie: the mean of `FEW`, with as many left aside farther out."""
    known, aside = sorted(values), FEW // 2
    at = int(share * len(known) + 1e-9)
    if at - aside < FEW or at + aside >= len(known) - FEW:
        return None
    return fmean(known[at - aside : at + aside + 1])


def compare_remembered(figures: Mapping[str, float], made: Seen) -> list[Compared]:
    """What a model remembers beside what was made of it."""
    return [Compared(one, figures[one.name], one.of(made)) for one in FIGURES if one.name in figures]


def as_asked(found: Sequence[Compared], *, is_when_asked: bool, recorded: int, made: int) -> list[Compared]:
    """The same, with why each is off that what was asked for explains: when conversations begin, or another
    number of requests than the `recorded`."""

    def told(one: Compared) -> Compared:
        return replace(one, why=_why(one, is_when_asked, recorded, made)) if one.is_off else one

    return list(map(told, found))


def _why(one: Compared, is_when_asked: bool, recorded: int, made: int) -> str | None:
    if one.figure.group == "when" and is_when_asked:
        return "when conversations begin is what was asked for"
    if one.figure.group in ("shared", "fronts") and abs(made / recorded - 1) > APART:
        return f"{made} requests were made, not {recorded}: the more there are, the more they share"
    return None
