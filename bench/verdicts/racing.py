"""What does a race cost and save?  Candidates that leave by the analysis's own rules, in simulated runs."""

from dataclasses import dataclass
from math import log

import numpy as np

from analysis.decision.winner import choose
from analysis.stats.racing import halved, rung_reached, surely_beaten
from analysis.stats.sequence import FEWEST_UNITS, asymptotic_bounds
from analysis.verdict import interval
from bench.verdicts.ours import ALPHA, MARGIN, calibration, window_means
from bench.verdicts.scenes import Floats, Scene, draw

# Of eight candidates, against the control: one is clearly the best, three are better, two like it, two worse.
APART = tuple(map(log, (0.85, 0.95, 0.95, 1.0, 1.0, 1.05, 1.10, 1.20)))
# The best is better than the second by as much as the margin.
CLOSE = tuple(map(log, (0.92, 0.95, 0.95, 0.95, 1.0, 1.0, 1.05, 1.10)))
ALIKE = (0.0,) * 8


@dataclass(frozen=True, slots=True)
class Rules:
    """Who leaves: those surely beaten, and at rungs, of which the first comes after so many windows."""

    name: str
    beaten: bool = False
    first_rung: int = 0


RULES = (
    Rules("all stay"),
    Rules("beaten leave", beaten=True),
    Rules("halving from 15", first_rung=15),
    Rules("both, from 30", beaten=True, first_rung=30),
)


@dataclass(frozen=True, slots=True)
class Raced:
    """Of one run: whether the best left, at any look an interval of any that were still in missed its truth,
    and the winner's own did on windows that had no part in its choice; and the share of windows that
    candidates were spared, of all that they would have had."""

    lost_best: bool
    missed: bool
    wins: bool | None
    fresh_missed: bool | None
    spared: float


def raced(scene: Scene, effects: tuple[float, ...], rules: Rules, pairs: int, seed: int) -> Raced:
    """One experiment of so many pairs after its calibration."""
    run = draw(scene, 500 + pairs, seed, candidates=len(effects))
    taken, size = calibration(run)
    truth = np.array(effects)
    ratios = np.log(run.candidates) - np.log(run.control) + truth[:, None]
    means = np.stack([window_means(row[taken:], size) for row in ratios])
    left = _left(means, rules)
    ends = np.array([left.get(at, means.shape[1]) for at in range(len(effects))])
    return Raced(
        lost_best=0 in left,
        missed=_missed(means, truth, ends),
        wins=None if (chosen := _chosen(means, ends)) is None else chosen[0] == 0,
        fresh_missed=None if chosen is None else _fresh_missed(means, truth, *chosen),
        spared=1.0 - float(ends.sum()) / means.size,
    )


def _left(means: Floats, rules: Rules) -> dict[int, int]:
    """After how many windows candidates left, by number; looked at as `analysis.race` does."""
    number, windows = means.shape
    left: dict[int, int] = {}
    units = FEWEST_UNITS
    while units <= windows and len(left) < number - 1:
        seen = {str(at): means[at, :units] for at in range(number) if at not in left}
        if rules.beaten:
            beaten = surely_beaten(seen, lambda *_: True, ALPHA, MARGIN, starters=number, together=True)
            left |= dict.fromkeys(map(int, beaten), units)
        order = sorted(seen.keys() - set(map(str, left)), key=lambda name: (float(seen[name].mean()), name))
        if rung := rung_reached(rules.first_rung, units):
            left |= dict.fromkeys(map(int, halved(order, number, rung)), units)
        units += max(1, units // 64)
    return left


def _missed(means: Floats, truth: Floats, ends: Floats) -> bool:
    lower, upper = asymptotic_bounds(means, ALPHA / len(truth))
    outside = (lower > truth[:, None]) | (upper < truth[:, None])
    looks = np.arange(1, means.shape[1] + 1)[None, :]
    return bool((outside & (looks >= FEWEST_UNITS) & (looks <= ends[:, None])).any())


def _chosen(means: Floats, ends: Floats) -> tuple[int, int] | None:
    """The winner and after how many windows it was chosen, as `rank` says; None where nobody is."""
    windows = np.arange(means.shape[1])
    scores = {str(at): np.where(windows < ends[at], row, np.nan) for at, row in enumerate(means)}
    out = {str(at): int(end) for at, end in enumerate(ends.tolist()) if end < means.shape[1]}
    choice = choose(scores, ALPHA / len(means), MARGIN, out)
    return None if choice is None else (int(choice.winner), choice.windows)


def _fresh_missed(means: Floats, truth: Floats, winner: int, since: int) -> bool | None:
    found = interval(means[winner, since:], ALPHA)
    if found is None or found.units < FEWEST_UNITS:
        return None
    return not found.lower <= float(truth[winner]) <= found.upper
