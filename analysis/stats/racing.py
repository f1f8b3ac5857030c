"""Which of many candidates is beaten by another for sure, and so needs no more of the hardware?"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from analysis.stats.many import each_alpha
from analysis.stats.sequence import FEWEST_UNITS, asymptotic_bounds


@dataclass(frozen=True, slots=True)
class Out:
    """A candidate that left a race: beaten by which other, after how many units."""

    name: str
    by: str
    units: int


def race(units: Mapping[str, NDArray[np.float64]], alpha: float, margin: float = 0.0) -> list[Out]:
    """Who is out, in order of leaving: each is slower than one still in, by more than `margin`, for sure.

    `units` are window means of log latency against one control over the same windows (lower is better), so
    all see the same requests: full information, no bandit.  Every pair of candidates gets alpha over the
    number of pairs, at every look from the fifteenth window on: the best is out with chance alpha at most.
    """
    names = sorted(units)
    length = min((len(column) for column in units.values()), default=0)
    pairs = list(combinations(names, 2))
    share = each_alpha(alpha, len(pairs))
    behind: list[tuple[int, str, str]] = []
    for one, other in pairs:
        lower, upper = asymptotic_bounds(units[one][:length] - units[other][:length], share)
        for loser, winner, beaten in ((one, other, lower > margin), (other, one, upper < -margin)):
            at = np.flatnonzero(beaten[FEWEST_UNITS - 1 :])
            if len(at):
                behind.append((int(at[0]) + FEWEST_UNITS, loser, winner))
    out: dict[str, Out] = {}
    for at_units, loser, winner in sorted(behind):
        if loser not in out and winner not in out:
            out[loser] = Out(loser, winner, at_units)
    return list(out.values())
