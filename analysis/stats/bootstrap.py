"""By how much did a percentile change?  A paired block bootstrap, at one look that was fixed beforehand.

Not valid under peeking: whoever looks again and again and stops at the first interval that pleases is wrong
more often than it says.  `HORIZON` is what every figure from here is labelled with.
"""

from dataclasses import dataclass
from math import ceil, inf, log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.stats.quantile import FEWEST_FOR_P99
from analysis.stats.sequence import FEWEST_UNITS

HORIZON: Final = "fixed horizon: holds at this look alone, not under peeking"
_RESAMPLES = 800
_SEED = 1  # the same pairs give the same interval
_OF_THE_TAIL = 10  # values beyond a percentile, of each arm, below which nothing is said of it


@dataclass(frozen=True, slots=True)
class QuantileEffect:
    """log(candidate's percentile / control's), with its interval; `pairs` in `blocks`."""

    effect: float
    lower: float
    upper: float
    pairs: int
    blocks: int


def fewest_pairs(share: float) -> int:
    """Below so many pairs nothing is said of this percentile; for the p99, 1,000."""
    beyond = min(share, 1.0 - share)
    return min(FEWEST_FOR_P99, max(20, ceil(_OF_THE_TAIL / beyond - 1e-9))) if beyond > 0 else FEWEST_FOR_P99


def quantile_effect(
    control: NDArray[np.float64],
    candidate: NDArray[np.float64],
    blocks: NDArray[np.int64],
    share: float,
    alpha: float,
    *,
    resamples: int = _RESAMPLES,
) -> QuantileEffect | None:
    """The change of a percentile of paired latencies; `blocks` tells which window each pair is of.

    Whole blocks are drawn, so that neighbours that depend on each other stay together; both arms' values of a
    pair are drawn together.  The interval holds the middle 1 - alpha of the resamples.  None below
    `fewest_pairs` or 15 blocks.  Exchanging the arms negates all three figures exactly.  An infinite latency
    is a failure; where it reaches the percentile, or one of 0 does, nothing is said.
    """
    kept, which = np.unique(blocks, return_inverse=True)
    if len(control) < fewest_pairs(share) or len(kept) < FEWEST_UNITS:
        return None
    drawn = np.random.default_rng(_SEED).integers(0, len(kept), (resamples, len(kept)))
    counts = np.stack([np.bincount(row, minlength=len(kept)) for row in drawn])
    ours, theirs = (_Sorted(values, which, share) for values in (control, candidate))
    once = np.ones(len(kept), dtype=np.int64)
    effect = theirs.log_quantile(once) - ours.log_quantile(once)
    effects = np.sort([theirs.log_quantile(row) - ours.log_quantile(row) for row in counts])
    outside = min(len(effects) // 2 - 1, int(len(effects) * alpha / 2))
    lower, upper = float(effects[outside]), float(effects[-1 - outside])
    if not all(map(np.isfinite, (effect, lower, upper))):
        return None
    return QuantileEffect(effect, lower, upper, len(control), len(kept))


class _Sorted:
    """The values of one arm in order, so that a resample is a sum of weights and not a sort."""

    __slots__ = ("_blocks", "_logs", "_share")

    def __init__(self, values: NDArray[np.float64], which: NDArray[np.intp], share: float) -> None:
        order = np.argsort(values, kind="stable")
        self._logs = [_log(value) for value in values[order].tolist()]
        self._blocks = which[order]
        self._share = share

    def log_quantile(self, counts: NDArray[np.int64]) -> float:
        """The log of the smallest value with the share of all at or below it, blocks counted so often."""
        reached = np.cumsum(counts[self._blocks])
        return self._logs[int(np.searchsorted(reached, self._share * reached[-1] - 1e-9))]


def _log(value: float) -> float:
    return log(value) if 0.0 < value < inf else inf if value > 0.0 else -inf
