"""By how much did a percentile change?  A paired block bootstrap, at one look that was fixed beforehand.

Not valid under peeking: whoever looks again and again and stops at the first interval that pleases is wrong
more often than it says.  `HORIZON` is what every figure from here is labelled with.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite, log, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.stats.clusters import FEWEST_CLUSTERS, Clusters, clusters_of
from analysis.stats.sequence import FEWEST_UNITS

HORIZON: Final = "fixed horizon: holds at this look alone, not under peeking"
_RESAMPLES = 800
_SEED = 1  # the same pairs give the same interval
_BALANCED = 0.08  # a cell's length, so that the product takes about as long as what is left to sum
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
    """Below so many pairs nothing is said of this percentile: for the p99 1,000, for the p99.9 10,000.

    `share` lies between 0 and 1, both left out.
    """
    return max(20, ceil(_OF_THE_TAIL / min(share, 1.0 - share) - 1e-6))


def quantile_level(
    values: NDArray[np.float64],
    blocks: NDArray[np.int64],
    share: float,
    alpha: float,
    *,
    resamples: int = _RESAMPLES,
) -> QuantileEffect | None:
    """A percentile itself, as its log, as `quantile_effects` tells a change; None for the same reasons.

    Each end is one value further out than the resamples say.  A single arm's tail is skewed: with ten values
    beyond the percentile, what the resamples say lies below the truth in 6 of 100 where 2.5 are meant.
    """
    # Of an arm that always takes 1 the effect is the log of the other's own percentile.
    found = quantile_effect(np.ones_like(values), values, blocks, share, alpha, resamples=resamples)
    if found is None:
        return None
    logs = np.array([_log(value) for value in np.unique(values).tolist()])
    below, above = np.searchsorted(logs, (found.lower, found.upper)).tolist()
    lower, upper = float(logs[max(below - 1, 0)]), float(logs[min(above + 1, len(logs) - 1)])
    return None if upper == inf else replace(found, lower=lower, upper=upper)


def quantile_effect(
    control: NDArray[np.float64],
    candidate: NDArray[np.float64],
    blocks: NDArray[np.int64],
    share: float,
    alpha: float,
    *,
    resamples: int = _RESAMPLES,
) -> QuantileEffect | None:
    """`quantile_effects` of one percentile."""
    return quantile_effects(control, candidate, blocks, (share,), alpha, resamples=resamples)[0]


def quantile_effects(
    control: NDArray[np.float64],
    candidate: NDArray[np.float64],
    blocks: NDArray[np.int64],
    shares: Sequence[float],
    alpha: float,
    *,
    resamples: int = _RESAMPLES,
) -> list[QuantileEffect | None]:
    """The change of percentiles of paired latencies; `blocks` tells which window each pair is of.

    Whole blocks are drawn, so that neighbours that depend on each other stay together; both arms' values of a
    pair are drawn together; blocks are joined where values beyond the percentile come in clusters.  The
    interval holds the middle 1 - alpha of the resamples.  None below `pairs_needed` or 15 blocks.  Exchanging
    the arms negates all three figures exactly.  An infinite latency is a failure; where it reaches the
    percentile, or one of 0 does, nothing is said.
    """
    kept, which = np.unique(blocks, return_inverse=True)
    drawn: dict[int, tuple[_Sorted, _Sorted]] = {}  # by how many blocks are joined
    found: list[QuantileEffect | None] = []
    for share in shares:
        clusters = tail_clusters(control, candidate, blocks, share)
        joined = clusters.joined
        number = -(-len(kept) // joined)
        if len(control) < pairs_needed(share, len(control), clusters) or number < FEWEST_UNITS:
            found.append(None)
            continue
        if joined not in drawn:
            counts = _drawn(number, resamples)
            ours, theirs = (_Sorted(values, which // joined, counts) for values in (control, candidate))
            drawn[joined] = ours, theirs
        ours, theirs = drawn[joined]
        with np.errstate(invalid="ignore"):  # both infinite: no number, which sorts last
            effects = theirs.log_quantiles(share) - ours.log_quantiles(share)
        found.append(_effect(effects, alpha, len(control), number))
    return found


def tail_clusters(
    control: NDArray[np.float64], candidate: NDArray[np.float64], blocks: NDArray[np.int64], share: float
) -> Clusters:
    """In how many clusters values beyond the percentile come; `blocks` say the order of time."""
    return clusters_of(control, candidate, np.unique(blocks, return_inverse=True)[1], share)


def pairs_needed(share: float, pairs: int, clusters: Clusters) -> int:
    """`fewest_pairs`; where values beyond the percentile come in clusters, about as many as hold enough of
    them, if they go on to come as they did in these `pairs`."""
    return max(fewest_pairs(share), ceil(pairs * FEWEST_CLUSTERS / clusters.number))


def _effect(effects: NDArray[np.float64], alpha: float, pairs: int, blocks: int) -> QuantileEffect | None:
    """Of what was seen, which comes first, and of the resamples after it."""
    effect, drawn = float(effects[0]), np.sort(effects[1:])
    outside = min(len(drawn) // 2 - 1, int(len(drawn) * alpha / 2))
    lower, upper = float(drawn[outside]), float(drawn[-1 - outside])
    if not all(map(isfinite, (effect, lower, upper))):
        return None
    return QuantileEffect(effect, lower, upper, pairs, blocks)


def _drawn(blocks: int, resamples: int) -> NDArray[np.int32]:
    """How often each resample (a row) has each block; the first has each once, as it was seen."""
    drawn = np.random.default_rng(_SEED).integers(0, blocks, (resamples, blocks))
    rows = np.arange(resamples)[:, None] * blocks
    counts = np.bincount((drawn + rows).ravel(), minlength=resamples * blocks).reshape(resamples, blocks)
    return np.vstack((np.ones((1, blocks), dtype=np.int32), counts.astype(np.int32)))


class _Sorted:
    """The values of one arm in order, and how many of them each resample has up to each of some places.

    So a percentile of a resample is found by its cell first and then within that, all resamples at once: a
    matrix product and a few hundred values each, where sums over all values would be a hundred times as many.
    Weights are whole numbers far below 2 ** 53: the product is exact.
    """

    __slots__ = ("_before", "_blocks", "_cell", "_counts", "_values")

    def __init__(
        self, values: NDArray[np.float64], which: NDArray[np.intp], counts: NDArray[np.int32]
    ) -> None:
        order = np.argsort(values, kind="stable")
        self._values = values[order]
        self._cell = max(16, round(_BALANCED * sqrt(counts.shape[1] * len(values))))  # values
        cells = -(-len(values) // self._cell)
        blocks = which[order]
        cell = np.arange(len(values)) // self._cell
        held = np.bincount(blocks * cells + cell, minlength=counts.shape[1] * cells)
        upto = np.cumsum(held.reshape(-1, cells), axis=1, dtype=np.float64)
        self._before = np.hstack(
            (np.zeros((len(counts), 1)), counts.astype(np.float64) @ upto)
        )  # each cell; and all, at last
        beyond = np.full(cells * self._cell - len(values), counts.shape[1])
        self._blocks = np.concatenate((blocks, beyond)).reshape(cells, self._cell)
        self._counts = np.hstack((counts, np.zeros_like(counts[:, :1])))  # nothing is beyond

    def log_quantiles(self, share: float) -> NDArray[np.float64]:
        """Of each resample the log of the smallest value with the share of all at or below it."""
        wanted = (share * self._before[:, -1] - 1e-9)[:, None]
        cell = (self._before[:, 1:] < wanted).sum(axis=1)
        rows = np.arange(len(cell))[:, None]
        reached = self._before[rows, cell[:, None]] + self._counts[rows, self._blocks[cell]].cumsum(axis=1)
        places, which = np.unique(cell * self._cell + (reached < wanted).sum(axis=1), return_inverse=True)
        return np.array([_log(value) for value in self._values[places].tolist()])[which]


def _log(value: float) -> float:
    return log(value) if 0.0 < value < inf else inf if value > 0.0 else -inf
