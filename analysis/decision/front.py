"""Which arms does no other beat?  A Pareto front whose every "beats" is certain."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.stats.sequence import FEWEST_UNITS, asymptotic_bounds

CONTROL = "control"


@dataclass(frozen=True, slots=True)
class Front:
    """For each arm, the arms that certainly beat it; nothing beats those on the front.

    `since`: after how many windows another candidate was first shown to beat it; those are out of the choice.
    `apart`: pairs of arms never measured in the same windows, of which nothing can be said.
    """

    beaten_by: Mapping[str, tuple[str, ...]]
    since: Mapping[str, int]
    apart: tuple[tuple[str, str], ...]

    def show(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "on": [name for name, others in self.beaten_by.items() if not others],
            "beaten_by": {name: list(others) for name, others in self.beaten_by.items() if others},
            "out": sorted(self.since),
            "apart": [list(pair) for pair in self.apart],
        }


def front(effects: Mapping[str, NDArray[np.float64]], objectives: int, alpha: float, margin: float) -> Front:
    """The front of these arms.

    `effects`: of each arm, the log ratios to the control by window (rows, the same windows for all, NaN where
    it has none) and objective (columns); the control's own are 0.  a beats b where it is certain that a is
    worse by more than `margin` (a log) in no objective and better by more than that in one.  All intervals
    hold at once, at every look, with probability 1 - alpha: alpha / (objectives x pairs of arms) each; so
    what was once shown stays.
    """
    names = list(effects)
    share = alpha / (objectives * max(1, len(names) * (len(names) - 1) // 2))
    beaten: dict[str, list[str]] = {name: [] for name in names}
    since: dict[str, int] = {}
    apart = []
    for one, other in permutations(names, 2):
        gaps = effects[one] - effects[other]
        rows = np.flatnonzero(~np.isnan(gaps).any(axis=1))
        if len(rows) < FEWEST_UNITS:
            if one < other:
                apart.append((one, other))
            continue
        upper = asymptotic_bounds(gaps[rows].T, share)[1][:, FEWEST_UNITS - 1 :]
        shown = np.flatnonzero((upper < margin).all(axis=0) & (upper < -margin).any(axis=0))
        if not len(shown):
            continue
        beaten[other].append(one)
        if CONTROL not in (one, other):
            at = int(rows[shown[0] + FEWEST_UNITS - 1]) + 1
            since[other] = min(at, since.get(other, at))
    return Front({name: tuple(others) for name, others in beaten.items()}, since, tuple(apart))
