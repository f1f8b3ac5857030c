"""How strong is the evidence of yes-or-no units, at every look?  Beta-binomial e-processes.

For independent units only.  On raw pairs of live traffic, which depend on their neighbours, they are false in
90 to 99.9 % of comparisons of an engine with itself: there, shares per window under the asymptotic sequence
are what holds.  Golden requests and scored sets, one a unit, are what these are for.
"""

from math import inf, lgamma, log, log1p

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


_WAGERS = (0.125, 0.25, 0.5, 0.95)  # of the most that may be laid


def not_worse_log_evidence(alike: int, only_control: int, only_candidate: int, bar: float) -> float:
    """log E against "the control alone gets at least `bar` more of all units right than the candidate alone".

    A unit is X = 1 where only the control is right, -1 where only the candidate is, else 0.  E is the mean,
    over four wagers w, of the product of 1 + w (bar - X) / (1 - bar): none is ever below 0, and with the mean
    of X at `bar` or above, whatever came before, none grows.  So E exceeds 1 / alpha at any time with chance
    alpha at most.  Waudby-Smith and Ramdas, JRSS B 86(1), 2024.
    """
    if not 0.0 < bar < 1.0:
        raise ValueError(f"a bar lies between 0 and 1, got {bar}")
    logs = []
    for wager in _WAGERS:
        stake = wager / (1.0 - bar)
        logs.append(
            alike * log1p(stake * bar)
            + only_control * log1p(stake * (bar - 1.0))
            + only_candidate * log1p(stake * (bar + 1.0))
        )
    return float(np.logaddexp.reduce(logs)) - log(len(_WAGERS))


def evidence(log_e: float) -> float:
    """E itself; infinite where a float cannot hold it."""
    return inf if log_e > 700.0 else float(np.exp(log_e))
