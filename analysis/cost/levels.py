"""Under which loads did an arm run?  Its slices, sorted by how many requests were sent while they lasted."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from analysis.columns import logs
from analysis.cost.slices import Ints, Runs, Slices

# Loads are told apart as multiples of the usual one.
MULTIPLIERS: Final = (0.125, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
# A second with many requests is no load: one must have lasted so long.
_STRETCH_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Level:
    """A load that lasted: `multiplier` times the usual, and the slices under it, by time.

    `rows` are those of its slices among all of the arm's.
    """

    multiplier: float
    rows: Ints
    slices: Slices

    @property
    def seconds(self) -> float:
        return float(self.slices.seconds.sum())

    @property
    def requests_per_s(self) -> float:
        return float(self.slices.of("requests").sum()) / self.seconds


def levels(runs: Runs, own: int | None = None) -> list[Level]:
    """The loads, lightest first; the usual one is that of the first `own` slices (None: of all).

    Each run is cut into stretches of a minute or more, so that requests that happen to come together are not
    taken for a load; the median of the stretches' rates is the usual load.
    """
    slices = runs.slices
    starts = _stretches(runs)
    if not len(starts):
        return []
    rates = np.add.reduceat(slices.of("requests"), starts) / np.add.reduceat(slices.seconds, starts)
    sent = rates > 0.0
    if not sent.any():
        return []
    usual = sent & (starts < (len(slices) if own is None else own))
    apart = logs(rates) - logs(np.array([np.median(rates[usual if usual.any() else sent])]))
    nearest = np.abs(logs(np.array(MULTIPLIERS))[:, None] - apart[None, :])
    which = np.where(sent, np.argmin(np.where(np.isnan(nearest), np.inf, nearest), axis=0), -1)
    of_row = np.repeat(which, np.diff(starts, append=len(slices)))
    found = []
    for n in sorted({*which.tolist()} - {-1}):
        rows = np.flatnonzero(of_row == n)
        found.append(Level(MULTIPLIERS[n], rows, slices.pick(rows)))
    return found


def _stretches(runs: Runs) -> Ints:
    """Their first rows: about as long each, none under a minute unless its run is."""
    seconds = np.concatenate([[0.0], np.cumsum(runs.slices.seconds)])
    starts: list[int] = []
    for begin, end in runs.spans():
        parts = max(1, int((seconds[end] - seconds[begin]) / _STRETCH_S))
        cuts = {begin + (end - begin) * n // parts for n in range(parts)}
        starts.extend(sorted(cuts))
    return np.array(starts, dtype=np.int64)
