"""How strong is the evidence of yes-or-no units, at every look?  Beta-binomial e-processes.

For independent units only.  On raw pairs of live traffic, which depend on their neighbours, they are false in
90 to 99.9 % of comparisons of an engine with itself: there, shares per window under the asymptotic sequence
are what holds.  Golden requests and scored sets, one a unit, are what these are for.
"""

from math import inf, lgamma, log

import numpy as np
from numpy.typing import NDArray


def log_beta(a: float, b: float) -> float:
    """log B(a, b)."""
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def log_evidence(successes: int, units: int, share: float, a: float = 1.0, b: float = 1.0) -> float:
    """log E against "each unit succeeds with chance `share`, whatever came before".

    E = [B(a + S, b + t - S) / B(a, b)] / [p^S (1 - p)^(t - S)], a likelihood ratio mixed over Beta(a, b):
    under the hypothesis it exceeds 1 / alpha at any time with chance alpha at most (Ville's inequality).
    Howard and Ramdas, Bernoulli 28(3), 2022.
    """
    if not 0.0 < share < 1.0:
        raise ValueError(f"a share to test lies between 0 and 1, got {share}")
    failures = units - successes
    mixed = log_beta(a + successes, b + failures) - log_beta(a, b)
    return mixed - successes * log(share) - failures * log(1.0 - share)


def log_evidence_path(
    hits: NDArray[np.bool_], share: float, a: float = 1.0, b: float = 1.0
) -> NDArray[np.float64]:
    """`log_evidence` after each unit (the last axis): the sum of each unit's log predictive ratio."""
    t = np.arange(hits.shape[-1], dtype=np.float64)
    ones = hits.astype(np.float64)
    before = np.cumsum(ones, axis=-1) - ones
    expected = (a + before) / (a + b + t)
    told = np.where(hits, np.log(expected / share), np.log((1.0 - expected) / (1.0 - share)))
    path: NDArray[np.float64] = np.cumsum(told, axis=-1)
    return path


def mcnemar_log_evidence(only_candidate: int, only_control: int) -> float:
    """log E against "a pair that differs is as likely to differ either way", from the counts of those pairs.

    E = B(1/2 + n01, 1/2 + n10) / B(1/2, 1/2) 2^(n01 + n10).  Exchanging the arms leaves it as it is.
    """
    return log_evidence(only_candidate, only_candidate + only_control, 0.5, 0.5, 0.5)


def mcnemar_path(candidate: NDArray[np.bool_], control: NDArray[np.bool_]) -> NDArray[np.float64]:
    """`mcnemar_log_evidence` after each pair of one run of pairs."""
    differs = candidate != control
    path = np.zeros(len(differs))
    if differs.any():
        steps = log_evidence_path(candidate[differs], 0.5, 0.5, 0.5)
        path = np.concatenate(([0.0], steps))[np.cumsum(differs)]
    return path


def quantile_ranks(units: int, share: float, alpha: float, weight: float = 10.0) -> tuple[int, int | None]:
    """Which order statistics (counted from 0) hold the `share`-quantile between them, at every look.

    Of n sorted units the quantile lies between the two, at level 1 - alpha; the upper is None where no unit
    is high enough: the p99 of 200 units has no upper end.  The prior is Beta(w p, w (1 - p)).
    """
    a, b, bar = weight * share, weight * (1.0 - share), log(1.0 / alpha)

    def fits(below: int) -> bool:
        return log_evidence(below, units, share, a, b) < bar

    middle = min(units, max(0, round(units * share)))
    if not fits(middle):
        return 0, None
    low, first = -1, middle  # the evidence falls towards the middle from either side
    while first - low > 1:
        probe = (low + first) // 2
        low, first = (low, probe) if fits(probe) else (probe, first)
    last, high = middle, units + 1
    while high - last > 1:
        probe = (last + high) // 2
        last, high = (probe, high) if fits(probe) else (last, probe)
    return max(0, first - 1), None if last >= units else last


def evidence(log_e: float) -> float:
    """E itself; infinite where a float cannot hold it."""
    return inf if log_e > 700.0 else float(np.exp(log_e))
