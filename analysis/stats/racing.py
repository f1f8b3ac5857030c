"""Which of many candidates needs no more of the hardware?  Those beaten, and at rungs the worse half."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from analysis.stats.many import each_alpha
from analysis.stats.sequence import FEWEST_UNITS, asymptotic_bounds, asymptotic_radius, long_run_sd

Units = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Out:
    """A candidate that left a race: beaten by which other, after how many units."""

    name: str
    by: str
    units: int


def race(units: Units, alpha: float, margin: float = 0.0) -> list[Out]:
    """Who is out, in order of leaving: each is slower than one still in, by more than `margin`, for sure.

    `units` are window means of log latency against one control over the same windows (lower is better; NaN
    where a candidate has none), so two see the same requests: full information, no bandit.  Every pair
    of candidates gets alpha over the number of pairs, at every look from the fifteenth window on: the best is
    out with chance alpha at most.
    """
    names = sorted(units)
    length = min((len(column) for column in units.values()), default=0)
    pairs = list(combinations(names, 2))
    share = each_alpha(alpha, len(pairs))
    behind: list[tuple[int, str, str]] = []
    for one, other in pairs:
        gaps = units[one][:length] - units[other][:length]
        rows = np.flatnonzero(~np.isnan(gaps))
        if len(rows) < FEWEST_UNITS:
            continue
        lower, upper = asymptotic_bounds(gaps[rows], share)
        for loser, winner, beaten in ((one, other, lower > margin), (other, one, upper < -margin)):
            at = np.flatnonzero(beaten[FEWEST_UNITS - 1 :])
            if len(at):
                behind.append((int(rows[at[0] + FEWEST_UNITS - 1]) + 1, loser, winner))
    out: dict[str, Out] = {}
    for at_units, loser, winner in sorted(behind):
        if loser not in out and winner not in out:
            out[loser] = Out(loser, winner, at_units)
    return list(out.values())


def surely_beaten(
    units: Units,
    may_beat: Callable[[str, str], bool],
    alpha: float,
    margin: float,
    *,
    starters: int,
    together: bool,
) -> dict[str, str]:
    """Who is beaten at this look, and by whom: the best of those surely better by more than `margin`.

    `units` as in `race`, of those still in; `starters` is how many there were, for all looks of all of them
    share `alpha`.  `together`: candidates had the same requests at the same moments, and the windows' gaps
    are judged, each pair at alpha over the pairs; else each has windows of its own, and is beaten where its
    interval lies beyond another's, each at alpha over the starters.  Either way the best is beaten with
    chance `alpha` at most, however often it is looked.  `may_beat(winner, loser)`: whether it may at all.
    """
    share = each_alpha(alpha, starters * (starters - 1) // 2 if together else starters)
    own = {name: _ends(column[~np.isnan(column)], share) for name, column in units.items()}
    behind: dict[str, list[tuple[float, str]]] = {}
    for one, other in combinations(sorted(units), 2):
        if together:
            gaps = units[one] - units[other]
            lower, upper = _ends(gaps[~np.isnan(gaps)], share)
        else:
            lower, upper = own[one][0] - own[other][1], own[one][1] - own[other][0]
        for loser, winner, beaten in ((one, other, lower > margin), (other, one, upper < -margin)):
            if beaten and may_beat(winner, loser):
                behind.setdefault(loser, []).append((sum(own[winner]) / 2, winner))
    return {loser: min(found)[1] for loser, found in sorted(behind.items())}


def _ends(units: NDArray[np.float64], alpha: float) -> tuple[float, float]:
    """Both ends of the sequence at this look; infinite below fifteen units."""
    if len(units) < FEWEST_UNITS:
        return -np.inf, np.inf
    mean = float(units.mean())
    radius = asymptotic_radius(long_run_sd(units), len(units), alpha)
    return mean - radius, mean + radius


def rung_units(first: int, rung: int) -> int:
    """After how many units this rung (from 1) comes: the second after twice as many more as the first, and so
    on, so that each stretch costs the same: half of the candidates for twice as long (Jamieson and Talwalkar,
    AISTATS 2016)."""
    return first * ((1 << rung) - 1)


def rung_reached(first: int, units: int) -> int:
    """The last rung that so many units have come to; 0 before the first, or where there are none."""
    return (units // first + 1).bit_length() - 1 if first else 0


def halved(order: Sequence[str], starters: int, rung: int) -> list[str]:
    """Of those still in, the best first, who leaves at this rung: half of the starters stay at the first, a
    quarter at the second, rounded up, and one at last."""
    return list(order[max(1, -(-starters // 2**rung)) :])
