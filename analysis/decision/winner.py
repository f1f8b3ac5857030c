"""Which candidate wins, and how much better is it on windows that did not choose it?"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.stats.sequence import FEWEST_UNITS, asymptotic_bounds

Scores = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Choice:
    """`winner` was chosen by the first `windows` windows; those after them are fresh."""

    winner: str
    windows: int


def choose(
    scores: Scores, alpha: float, margin: float, out: Mapping[str, int] | None = None
) -> Choice | None:
    """The winner, as it was chosen window by window; None while none is certainly better than the control.

    `scores`: of each candidate, by window; NaN where it has none.  The first that is better by more than
    `margin` (a log), by an interval that holds at every look, is chosen, the best of them where there are
    several; it stays until another is better than it, as certainly.  So what comes after the choice had no
    part in it.  `out`: after how many windows a candidate was shown to be beaten in the sense of Pareto, and
    left, whatever its score; a winner that leaves makes room for the best of those that are left then.
    """
    out = out or {}
    better = {name: _first_below(score, alpha, -margin) for name, score in scores.items()}
    begin = 0
    while True:
        first = _best(scores, {name: max(at, begin) for name, at in better.items() if at}, out)
        if first is None:
            return None
        at, winner = first
        while True:
            over = {
                name: _first_below(scores[name] - scores[winner], alpha, 0.0, after=at)
                for name in scores.keys() - {winner}
            }
            rival = _best(scores, {name: own for name, own in over.items() if own}, out)
            leaves = out.get(winner)
            if leaves is not None and (rival is None or leaves < rival[0]):
                begin = leaves
                break
            if rival is None:
                return Choice(winner, at)
            at, winner = rival


def _best(scores: Scores, after: Mapping[str, int], out: Mapping[str, int]) -> tuple[int, str] | None:
    """Whose time comes first of those not out by then, and when; of several at once the best by then."""
    found = [
        (at, float(np.nanmean(scores[name][:at])), name)
        for name, at in after.items()
        if name not in out or at < out[name]
    ]
    if not found:
        return None
    at, _, name = min(found)
    return at, name


def _first_below(score: NDArray[np.float64], alpha: float, bound: float, after: int = 0) -> int:
    """After how many windows the interval lay below `bound`, at first or first after so many; 0: never."""
    rows = np.flatnonzero(~np.isnan(score))
    if len(rows) < FEWEST_UNITS:
        return 0
    upper = asymptotic_bounds(score[rows], alpha)[1]
    upper[: FEWEST_UNITS - 1] = np.inf
    hits = np.flatnonzero((upper < bound) & (rows >= after))
    return int(rows[hits[0]]) + 1 if len(hits) else 0


def no_difference(scores: Scores, alpha: float, margin: float) -> bool:
    """Whether no candidate is better than the control by more than `margin`, all of them shown not to be."""
    for score in scores.values():
        own = score[~np.isnan(score)]
        if len(own) < FEWEST_UNITS or not asymptotic_bounds(own, alpha)[0][-1] > -margin:
            return False
    return bool(scores)


def not_told_apart(scores: Scores, winner: str, alpha: float) -> list[str]:
    """The candidates that may be as good as the winner: the interval of their difference holds 0."""
    found = []
    for name, score in scores.items():
        gap = score - scores[winner]
        gap = gap[~np.isnan(gap)]
        if name == winner:
            continue
        if len(gap) < FEWEST_UNITS or not asymptotic_bounds(gap, alpha)[0][-1] > 0.0:
            found.append(name)
    return found
