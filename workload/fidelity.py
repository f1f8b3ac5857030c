"""How alike are two traffics?  The same figures of both, side by side, and why which are off."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from workload.figures import FIGURES, LEFT_OUT, Figure, Seen, settings_of
from workload.shape import FEW

APART = 0.1  # of what was recorded; more is off
APART_SHARE = 0.05  # of two shares, which are compared by their difference


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both.  `why` says why it is off, where it is and that is known."""

    figure: Figure
    one: float | None
    other: float | None
    why: str | None = None

    @property
    def name(self) -> str:
        return self.figure.name

    @property
    def apart(self) -> float | None:
        """Their difference: relative to the first, or of two shares as it is; None where there is none."""
        if self.one is None or self.other is None:
            return None
        if self.figure.is_share:
            return self.other - self.one
        if self.one == 0:
            return 0.0 if self.other == 0 else None
        return self.other / self.one - 1

    @property
    def is_off(self) -> bool:
        """Whether they are too far apart, or only one of them has it."""
        if self.one is None and self.other is None:
            return False
        bound = APART_SHARE if self.figure.is_share else APART
        return self.apart is None or abs(self.apart) > bound


def compare(one: Seen, other: Seen) -> list[Compared]:
    """Every figure of two traffics."""
    figures = [*FIGURES, *settings_of(one)]
    return [Compared(figure, figure.of(one), figure.of(other)) for figure in figures]


def table(found: Sequence[Compared], names: tuple[str, str] = ("recorded", "made")) -> str:
    """The figures for reading; those that neither has are left out."""
    shown = [one for one in found if one.one is not None or one.other is not None]
    width = max((len(one.name) for one in shown), default=0) + 2
    lines = [f"{'':<{width}}{names[0]:>14}{names[1]:>14}{'apart':>9}"]
    for one in shown:
        line = f"{one.name:<{width}}{_shown(one, one.one):>14}{_shown(one, one.other):>14}{_apart(one):>9}"
        lines.append(line + ("  off" if one.is_off else ""))
    off = [one for one in shown if one.is_off]
    lines.append(
        f"{len(shown) - len(off)} of {len(shown)} figures are within {APART:.0%}, shares within "
        f"{APART_SHARE * 100:g} points"
    )
    lines += [f"off: {one.name}: {one.why}" for one in off if one.why is not None]
    return "\n".join(lines)


def explained(
    found: Sequence[Compared],
    recorded: Seen,
    made: Seen,
    *,
    again: Callable[[], Iterator[Seen]],
    scenario: str = "recorded",
) -> list[Compared]:
    """The same, with why each is off that is.

    `made` is traffic of a model of `recorded`, and `again` makes more of it, by which chance is told from
    what the model leaves out.
    """
    if not any(one.is_off for one in found):
        return list(found)
    others = [made, *again()]
    return [replace(one, why=_why(one, recorded, others, scenario)) if one.is_off else one for one in found]


def _why(one: Compared, recorded: Seen, makings: Sequence[Seen], scenario: str) -> str:
    figure, made = one.figure, makings[0]
    if figure.group == "when" and scenario != "recorded":
        return f"when conversations begin is what the scenario {scenario} says"
    few = figure.few(recorded)
    if few is not None and one.one is not None:
        return f"fewer than {FEW} of {few} lie beyond it, and a model holds nothing of so few"
    if figure.of_two:
        return _why_apart(one, makings)
    known = [value for value in map(figure.of, makings) if value is not None]
    if one.one is not None and known and min(known) <= one.one <= max(known):
        low, high = (_shown(one, value) for value in (min(known), max(known)))
        return f"by chance: {len(makings)} makings have {low} to {high}"
    n, other = len(recorded.talks), len(made.talks)
    if figure.group in ("shared", "fronts") and abs(other / n - 1) > APART:
        return f"{other} conversations were made, not {n}: the more there are, the more they share"
    return LEFT_OUT[figure.group]


def _why_apart(one: Compared, makings: Sequence[Seen]) -> str:
    """Of a share that agrees: chance, where makings of one model agree as little with one another."""
    mine = next(figure for figure in settings_of(makings[0]) if figure.of_two)
    least = min((value for value in map(mine.of, makings[1:]) if value is not None), default=1.0)
    if one.other is not None and one.other >= least:
        return f"by chance: of two makings as little as {_shown(one, least)} agree"
    return LEFT_OUT[one.figure.group]


def _shown(one: Compared, value: float | None) -> str:
    if value is None:
        return "-"
    if one.figure.is_share:
        return f"{value:.1%}"
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3f}"


def _apart(one: Compared) -> str:
    if one.apart is None:
        return ""
    return f"{one.apart * 100:+.1f} pt" if one.figure.is_share else f"{one.apart:+.1%}"
