"""What does the analysis say of simulated pairs, after each window?  With the analysis's own functions."""

from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from analysis.calibration import against_itself, next_look, pairs_per_window, pairs_to_see
from analysis.stats.contrast import PENALTY
from analysis.stats.correlation import autocorrelation_time, longest_autocorrelation_time
from analysis.stats.eprocess import mcnemar_path
from analysis.stats.sequence import FEWEST_UNITS, OF_SHARES, asymptotic_bounds, bernstein_bounds
from bench.verdicts.scenes import Floats, Run

ALPHA = 0.05
MARGIN = log(1.03)
ASKED = 100  # pairs of calibration, as is the default; dependence may make it five times as many


def calibration(run: Run) -> tuple[int, int]:
    """How many pairs the calibration takes, and how many a window then has."""
    itself = np.log(run.twin) - np.log(run.control)
    taken = ASKED
    while taken < pairs_to_see(autocorrelation_time(itself[:taken]), ASKED):
        taken = next_look(taken, ASKED)
    return taken, ceil(pairs_per_window(longest_autocorrelation_time(itself[:taken])))


def fair_is_withheld(run: Run) -> bool:
    """Whether the calibration finds the control to differ from itself, in one latency."""
    found = against_itself((np.log(run.twin) - np.log(run.control))[: calibration(run)[0]])
    return not found.lower <= 0.0 <= found.upper


def window_means(values: Floats, size: int) -> Floats:
    """Means of windows; a failure (infinite) counts as the slowest of its window, and four times at least."""
    windows = values[: len(values) // size * size].reshape(-1, size)
    top = np.where(np.isfinite(windows), windows, -np.inf).max(axis=1, keepdims=True)
    return np.asarray(np.where(np.isfinite(windows), windows, np.maximum(top, PENALTY)).mean(axis=1))


class Looks:
    """One candidate's windows and the interval after each, from the fifteenth on."""

    def __init__(self, ratios: Floats, effects: Floats, taken: int, size: int, alpha: float = ALPHA) -> None:
        self.size = size
        self.means = window_means(ratios[taken:], size)
        so_far = np.cumsum(window_means(effects[taken:], size)) / np.arange(1, len(self.means) + 1)
        self._truth = so_far[FEWEST_UNITS - 1 :]
        lower, upper = asymptotic_bounds(self.means, alpha)
        self.lower, self.upper = lower[FEWEST_UNITS - 1 :], upper[FEWEST_UNITS - 1 :]
        self._alpha = alpha

    def misses(self) -> bool:
        """Whether the interval ever leaves out the mean effect so far."""
        return bool(((self.lower > self._truth) | (self.upper < self._truth)).any())

    def says(self, label: str) -> int | None:
        """After how many pairs FASTER, SLOWER, or either, is first said; None: never."""
        faster, slower = self.upper < -MARGIN, self.lower > MARGIN
        return self._first({"FASTER": faster, "SLOWER": slower, "either": faster | slower}[label])

    def excludes_zero(self) -> int | None:
        """After how many pairs the interval first leaves out no difference."""
        return self._first((self.lower > 0.0) | (self.upper < 0.0))

    def promotes(self) -> int | None:
        """After how many pairs FASTER holds without assumptions, too."""
        _, upper = bernstein_bounds(self.means, PENALTY, self._alpha)
        return self._first((self.upper < -MARGIN) & (upper[FEWEST_UNITS - 1 :] < 0.0))

    def _first(self, said: NDArray[np.bool_]) -> int | None:
        at = np.flatnonzero(said)
        return None if len(at) == 0 else (int(at[0]) + FEWEST_UNITS) * self.size


def looks(run: Run, alpha: float = ALPHA) -> list[Looks]:
    """The looks at each candidate of a run, each at `alpha` over their number."""
    taken, size = calibration(run)
    each = alpha / len(run.candidates)
    ratios = np.log(run.candidates) - np.log(run.control)
    return [Looks(row, run.effect, taken, size, each) for row in ratios]


def failure_look(failed: NDArray[np.bool_], taken: int, size: int, alpha: float = ALPHA) -> int | None:
    """After how many pairs one arm is first said to fail more often, by shares in windows; None: never."""
    differences = failed[1, taken:].astype(np.float64) - failed[0, taken:]
    means = window_means(differences, size)
    if len(means) < FEWEST_UNITS:
        return None
    bounds = asymptotic_bounds(means, alpha, prior=1.0 / size**2, groups=OF_SHARES)  # as in `analysis.rates`
    lower, upper = bounds
    at = np.flatnonzero(((lower > 0.0) | (upper < 0.0))[FEWEST_UNITS - 1 :])
    return None if len(at) == 0 else (int(at[0]) + FEWEST_UNITS) * size


def mcnemar_look(failed: NDArray[np.bool_], alpha: float = ALPHA) -> int | None:
    """The same by an e-process on the single pairs, which holds for independent ones only."""
    said = np.flatnonzero(mcnemar_path(failed[1], failed[0]) >= log(1.0 / alpha))
    return None if len(said) == 0 else int(said[0]) + 1
