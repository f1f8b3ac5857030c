"""What is lacking until it is said whether a candidate answers as the control does, and what mends it?"""

from bisect import bisect_left
from math import ceil, sqrt

from analysis.modes import LIVE, units_of
from analysis.stats.sequence import FEWEST_UNITS, asymptotic_radius
from analysis.verdict import DIVERGENCE_MARGIN, Interval, Spread, outputs_label, outputs_unseen

_NO_FLOOR = (
    "no two texts of the control were compared in the calibration: copy requests that are answered with text,"
    " and begin anew"
)
_MOST = 10**7  # windows: beyond that nobody waits
_AT_THE_MARGIN = 0.1  # of the margin: so near to it no calibration that anybody runs tells the sides apart


def outputs_lacking(
    divergence: Interval | None, floor: Spread | None, prior: float, alpha: float, mode: str = LIVE
) -> str | None:
    """In a sentence, for whoever waits for the label; None where it is said.

    `prior` and `alpha` are those of the divergence's interval (`analysis.score_intervals`).
    """
    if outputs_label(divergence, floor) != "UNDECIDED":
        return None
    if floor is None:
        return _NO_FLOOR
    if (unseen := outputs_unseen(floor)) is not None:
        return unseen
    if divergence is None or divergence.units < FEWEST_UNITS:
        units = "fewer than 2" if divergence is None else divergence.units
        return f"{units} {units_of(mode)} of compared texts, {FEWEST_UNITS} needed"
    same = DIVERGENCE_MARGIN - (divergence.mean - max(0.0, floor.lower))  # the radius below which it is said
    diverges = divergence.mean - min(1.0, floor.upper) - DIVERGENCE_MARGIN
    if (room := max(same, diverges)) <= 0.0:
        return _floor_too_wide(divergence, floor)
    needed = windows_needed(divergence, room, prior, alpha)
    about = f"more than {_MOST:,}" if needed is None else f"about {needed:,}"
    return f"{divergence.units:,} {units_of(mode)}; {about} are needed if answers go on like this"


def windows_needed(found: Interval, radius: float, prior: float, alpha: float) -> int | None:
    """After how many windows the interval is no wider than this; None: after more than anybody waits for.

    If mean and spread stay as they are, while what `prior` adds to the spread fades.
    """
    seen = max(0.0, found.sd**2 - prior / (found.units - 1))

    def is_narrow(units: int) -> bool:
        return asymptotic_radius(sqrt(seen + prior / (units - 1)), units, alpha) < radius

    units = bisect_left(range(found.units + 1, _MOST), True, key=is_narrow) + found.units + 1
    return units if units < _MOST else None


def _floor_too_wide(divergence: Interval, floor: Spread) -> str:
    """Where an interval of no width would not decide either."""
    beyond = divergence.mean - floor.mean
    said = (
        f"it parts from the control in {100 * beyond:+.1f} points of the length beyond the control's own"
        f" {floor.mean:.1%}, which is known to ±{100 * floor.radius:.1f} points only, and"
        f" {100 * DIVERGENCE_MARGIN:g} decide: more of its answers will not"
    )
    far = abs(beyond - DIVERGENCE_MARGIN)
    if far < _AT_THE_MARGIN * DIVERGENCE_MARGIN:
        return f"{said}, nor will any calibration: it lies at the margin itself"
    times = max(2, ceil((2.0 * floor.radius / far) ** 2))
    return (
        f"{said}; begin anew with a calibration of about {times} times as many pairs (calibration_pairs), or"
        " copy requests at temperature 0"
    )
