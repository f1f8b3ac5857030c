"""Do values beyond a percentile come together, and in how many clusters?  What a block bootstrap rests on."""

from dataclasses import dataclass
from math import ceil, inf, sqrt

import numpy as np
from numpy.typing import NDArray

from analysis.stats.sequence import FEWEST_UNITS, OF_SHARES

FEWEST_CLUSTERS = 10.0
_TOGETHER = 1.5  # times as much as if each came by itself: so much must numbers vary for clusters to be seen
_GROWS = 1.4  # from the last groups but one to the last: then larger ones would vary more yet
_SHAPE = 30  # groups, below which their fourth moment says little

Floats = NDArray[np.float64]
Blocks = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Clusters:
    """`joined` neighbouring blocks hold what comes together; as much is known as of `number` clusters of one
    size: of infinitely many where values do not come together, of 1 where no block holds a whole cluster."""

    joined: int
    number: float


def clusters_of(control: Floats, candidate: Floats, which: Blocks, share: float) -> Clusters:
    """Of the values beyond the percentile: of either arm, and of their difference, by which an effect goes.

    `which` tells the block of each pair, from 0 on in order of time.  Blocks are joined in twos, fours, … as
    long as fifteen are left, to those whose numbers beyond vary most; larger groups, of which there are few,
    count for less (`OF_SHARES`).
    """
    if not len(which):
        return Clusters(1, inf)
    ours, theirs = (_beyond(values, share) for values in (control, candidate))
    every = [series for series in (ours, theirs, theirs - ours) if series.any()]
    blocks = int(which.max()) + 1
    sizes = [1]
    while -(-blocks // (2 * sizes[-1])) >= FEWEST_UNITS:
        sizes.append(2 * sizes[-1])
    sums = {size: [_sums(series, which // size) for series in every] for size in sizes}
    varies = {size: max(map(_dispersion, sums[size], every), default=0.0) for size in sizes}
    joined = max(sizes, key=lambda size: varies[size])
    if varies[joined] < _TOGETHER:
        return Clusters(joined, inf)
    if joined > 1 and joined == sizes[-1] and varies[joined] > _GROWS * varies[joined // 2]:
        return Clusters(joined, 1.0)
    telling = (size for size in sizes if size in (1, joined) or -(-blocks // size) >= _SHAPE)
    return Clusters(joined, min(_number(own) for size in telling for own in sums[size]))


def _beyond(values: Floats, share: float) -> Floats:
    """1 for a value beyond the percentile, else 0, less the mean."""
    place = ceil(share * len(values)) - 1
    found = (values > np.partition(values, place)[place]).astype(np.float64)
    centred: Floats = found - found.mean()
    return centred


def _sums(series: Floats, groups: Blocks) -> Floats:
    return np.bincount(groups, weights=series).astype(np.float64)


def _dispersion(sums: Floats, series: Floats) -> float:
    """How much the groups' sums vary, against what they would if each value came by itself."""
    groups = len(sums)
    if groups < 2:
        return 0.0
    varies = float(sums @ sums) / float(series @ series) * groups / (groups - 1)
    return varies / (1.0 + OF_SHARES.discount * sqrt(2.0 / (groups - 1)))


def _number(sums: Floats) -> float:
    """How many clusters of one size would give such a kurtosis: 3 + groups / clusters.

    Where sizes differ it is fewer than there are, for the large ones are what matters.
    """
    squares = sums**2
    if not squares.any():
        return inf
    excess = float(squares @ squares) / float(squares.sum()) ** 2 * len(sums) - 3.0
    return len(sums) / excess if excess > 0.0 else inf
