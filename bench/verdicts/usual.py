"""What does the usual practice say of the same requests?  Unpaired, looked at as it goes.

Each takes the latencies of both arms in ms, of what was answered, and tells after how many
requests of each arm it first calls the candidate other, and in which direction: +1 slower, -1 faster.
"""

from collections.abc import Callable
from math import sqrt
from statistics import NormalDist

import numpy as np

from bench.verdicts.scenes import Floats

Said = tuple[int, int] | None

_LOOK_EVERY = 50
_MINUTE = 60  # requests of each arm: one a second


def t_test(control: Floats, candidate: Floats) -> Said:
    """Welch's t-test at 95 %, looked at every 50 requests."""
    at, gap, variance = _running(control, candidate)
    # Student's quantile for that many degrees of freedom, to the second term.
    z, freedom = 1.96, 2.0 * (at - 1)
    bar = z + (z**3 + z) / (4 * freedom)
    return _first(at, np.abs(gap) > bar * np.sqrt(variance), gap)


def sequential_glr(control: Floats, candidate: Floats, delta: float = 0.05) -> Said:
    """TensorZero's track-and-stop: gap^2 / (2 (s1^2/n1 + s2^2/n2)) > ln((1 + ln t) / delta), every 50."""
    at, gap, variance = _running(control, candidate)
    return _first(at, gap**2 / (2.0 * variance) > np.log((1.0 + np.log(2.0 * at)) / delta), gap)


def mann_whitney(
    control: Floats, candidate: Floats, confidence: float = 0.98, tolerance: float = 0.25
) -> Said:
    """Kayenta's judge over the minutes' means so far, once a minute: the interval of the Hodges-Lehmann shift
    leaves out a quarter of the estimate on either side of nothing."""
    minutes = min(len(control), len(candidate)) // _MINUTE
    ours, theirs = (
        arm[: minutes * _MINUTE].reshape(minutes, _MINUTE).mean(axis=1) for arm in (control, candidate)
    )
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    for n in range(5, minutes + 1):
        shifts = np.sort((theirs[:n, None] - ours[None, :n]).ravel())
        outside = int(n * n / 2 - z * sqrt(n * n * (2 * n + 1) / 12))
        if outside < 1:
            continue
        lower, upper = shifts[outside - 1], shifts[-outside]
        bound = tolerance * abs(float(np.median(shifts)))
        if lower > bound or upper < -bound:
            return n * _MINUTE, 1 if lower > bound else -1
    return None


def fixed_threshold(control: Floats, candidate: Floats, slack: float = 1.2, failed_checks: int = 5) -> Said:
    """Flagger's: each minute the candidate's p99 is held against a bound, fixed at 1.2 times the p99 that the
    control had in its first ten minutes; after five failed checks it is rolled back.  It says no other."""
    first = 10 * _MINUTE
    bound = slack * float(np.quantile(control[:first], 0.99))
    minutes = len(candidate) // _MINUTE
    p99 = np.quantile(candidate[: minutes * _MINUTE].reshape(minutes, _MINUTE), 0.99, axis=1)
    failed = np.flatnonzero(p99 > bound)
    return None if len(failed) < failed_checks else (int(failed[failed_checks - 1] + 1) * _MINUTE, 1)


PRACTICES: dict[str, Callable[[Floats, Floats], Said]] = {
    "unpaired t-test, peeked at": t_test,
    "Mann-Whitney each minute, as Kayenta": mann_whitney,
    "fixed threshold, as Flagger": fixed_threshold,
    "sequential GLR, as TensorZero": sequential_glr,
}


def _running(control: Floats, candidate: Floats) -> tuple[Floats, Floats, Floats]:
    """Requests of each arm at each look, the gap of the means, and the variance of that gap."""
    n = min(len(control), len(candidate))
    at = np.arange(_LOOK_EVERY, n + 1, _LOOK_EVERY)
    means, variances = [], []
    for arm in (control[:n], candidate[:n]):
        origin = arm[0]
        total, squares = np.cumsum(arm - origin)[at - 1], np.cumsum((arm - origin) ** 2)[at - 1]
        means.append(total / at + origin)
        variances.append((squares - total**2 / at) / (at - 1))
    return at.astype(np.float64), means[1] - means[0], (variances[0] + variances[1]) / at


def _first(at: Floats, said: object, gap: Floats) -> Said:
    found = np.flatnonzero(np.asarray(said))
    return None if len(found) == 0 else (int(at[found[0]]), 1 if gap[found[0]] > 0 else -1)
