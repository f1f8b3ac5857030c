"""How sure can one be of a mean, at every look?  Two-sided confidence sequences."""

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

# The asymptotic sequence is narrowest about this many units in: 40 windows is a little over a minute at the
# shortest window, and at 15 and at 500 windows the price is a few per cent of the radius.
OPTIMAL_UNITS = 40

FEWEST_UNITS = 15  # below, the normal approximation misses more often than it says


@dataclass(frozen=True, slots=True)
class Groups:
    """Neighbouring units may still depend on each other: their spread is also looked at in groups of so many.

    The largest of several estimates is too large by chance.  So each of a group of several units counts less
    by `discount` times its own standard error, sqrt(2 / (groups - 1)) of a variance.
    """

    sizes: tuple[int, ...]
    discount: float


# Means of latencies need all of it: with half the discount of shares, eight candidates are wrong too often.
OF_LATENCIES = Groups((1, 2, 4), 0.0)

# Windows are as long as it takes latencies to forget.  Crossings of a bound forget sooner, so less is enough
# (`bench.verdicts`); unless failures come in bursts as long as windows, which takes larger groups to see.
OF_SHARES = Groups((1, 2, 4, 8), 0.75)

# Scores of answers may come in runs where latencies do not, and so be alike over many windows.
OF_SCORES = Groups((1, 2, 4, 8, 16, 32), 0.0)


def asymptotic_radius(sd: float, units: int, alpha: float, optimal_units: int = OPTIMAL_UNITS) -> float:
    """The radius around the running mean of `units` units with standard deviation `sd`, at level 1 - alpha.

    Asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (Annals of Statistics
    52(6), 2024): s sqrt(2 (t r^2 + 1) / (t^2 r^2) log(sqrt(t r^2 + 1) / alpha)), r^2 for t = `optimal_units`;
    times t / (t - 1), since s is known from few units only: about half of Student's correction, enough for
    what the simulations hold it to.
    """
    if units < 2:
        return float("inf")
    tr2 = units * _r2(alpha, optimal_units)
    radius = sd * sqrt(2 * (tr2 + 1) / (units * tr2) * log(sqrt(tr2 + 1) / alpha))
    return radius * units / (units - 1)


def asymptotic_log_evidence(
    mean: float, sd: float, units: int, alpha: float, optimal_units: int = OPTIMAL_UNITS
) -> float:
    """log E against a mean of 0: at least log(1 / alpha) exactly where the interval at `alpha` leaves out 0.

    E = exp(t^2 r^2 m^2 / (2 s^2 (t r^2 + 1))) / sqrt(t r^2 + 1), the mixture behind `asymptotic_radius`, with
    its correction of s.  At least two units.
    """
    tr2 = units * _r2(alpha, optimal_units)
    if sd <= 0.0:
        return float("inf") if mean else -0.5 * log(tr2 + 1)
    ratio = mean / sd * (units - 1) / units
    return units * tr2 * ratio**2 / (2 * (tr2 + 1)) - 0.5 * log(tr2 + 1)


def _r2(alpha: float, optimal_units: int) -> float:
    return (2 * log(1 / alpha) + log(2 * log(1 / alpha)) + 1) / optimal_units


def long_run_sd(units: NDArray[np.float64], prior: float = 0.0, groups: Groups = OF_LATENCIES) -> float:
    """The standard deviation of units in order of time, as far as it matters for their mean.

    The largest, over the sizes of `groups`, of sqrt(group size) times the standard deviation of the
    groups' means (batch means): the same for independent units but for chance, larger where what one unit has
    too much the next has too.  A group that is not full is left out.  `prior` is added to the sum of squares,
    as if it were of single units, whichever is largest.  At least two units.
    """
    largest = 0.0
    for size in groups.sizes:
        count = len(units) // size
        if count < 2:
            break
        means = units[: count * size].reshape(count, size).mean(axis=1)
        centred = means - means.mean()
        squares = float(centred @ centred) * size
        if size > 1:
            squares /= 1.0 + groups.discount * sqrt(2.0 / (count - 1))
        largest = max(largest, squares / (count - 1))
    return sqrt(largest + prior / (len(units) - 1))


def asymptotic_bounds(
    units: NDArray[np.float64],
    alpha: float,
    optimal_units: int = OPTIMAL_UNITS,
    prior: float = 0.0,
    groups: Groups = OF_LATENCIES,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper end after each of the units (the last axis), which come in order of time.

    The ends after the first unit are infinite: one value has no spread.  `prior`, `groups`: as `long_run_sd`.
    """
    t = np.arange(1, units.shape[-1] + 1, dtype=np.float64)
    # Sums about a value near the mean lose no digits where the mean is large against the spread.
    origin = units[..., :1]
    means = np.cumsum(units - origin, axis=-1) / t
    each = [_variances(units - origin, size, groups.discount) for size in groups.sizes]
    sd = np.sqrt(np.max(each, axis=0) + prior / np.maximum(t - 1, 1))
    tr2 = t * _r2(alpha, optimal_units)
    radii = sd * np.sqrt(2 * (tr2 + 1) / (t * tr2) * np.log(np.sqrt(tr2 + 1) / alpha)) * t
    radii[..., 1:] /= t[1:] - 1
    radii[..., :1] = np.inf
    return means + origin - radii, means + origin + radii


def _variances(units: NDArray[np.float64], size: int, discount: float) -> NDArray[np.float64]:
    """After each unit, what `long_run_sd` makes of groups of `size`; 0 below two groups."""
    length = units.shape[-1]
    count = length // size
    means = units[..., : count * size].reshape(*units.shape[:-1], count, size).mean(axis=-1)
    k = np.arange(1, count + 1, dtype=np.float64)
    squares = np.cumsum(means**2, axis=-1) - np.cumsum(means, axis=-1) ** 2 / k
    squares = np.maximum(squares, 0.0) * size
    if size > 1:
        squares /= 1.0 + discount * np.sqrt(2.0 / np.maximum(k - 1, 1))
    found = squares / np.maximum(k - 1, 1)
    none = np.zeros((*units.shape[:-1], 1))
    variances: NDArray[np.float64] = np.concatenate((none, found), axis=-1)[
        ..., (np.arange(length) + 1) // size
    ]
    return variances


def bernstein_bounds(
    values: NDArray[np.float64], bound: float, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper end for the mean of `values`, cut to [-bound, bound], after each of them.

    Predictable plug-in empirical-Bernstein sequence (Waudby-Smith and Ramdas, JRSS B 86(1), 2024). It assumes
    no normality, so it is wider: a verdict that holds here too is one to promote a candidate on. The values
    come in order of time; what is estimated is the mean of the cut values.
    """
    units = len(values)
    x = (np.clip(values, -bound, bound) + bound) / (2 * bound)
    t = np.arange(1, units + 1, dtype=np.float64)
    mu = (0.5 + np.cumsum(x)) / (t + 1)
    v = (0.25 + np.cumsum((x - mu) ** 2)) / (t + 1)
    mu_before = np.concatenate(([0.5], mu))[:units]
    v_before = np.concatenate(([0.25], v))[:units]
    bets = np.minimum(np.sqrt(2 * log(2 / alpha) / (v_before * t * np.log1p(t))), 0.5)
    psi = (-np.log1p(-bets) - bets) / 4
    total = np.cumsum(bets)
    centre = np.cumsum(bets * x) / total
    radius = (log(2 / alpha) + np.cumsum(4 * (x - mu_before) ** 2 * psi)) / total
    lower = np.clip(centre - radius, 0.0, 1.0) * 2 * bound - bound
    upper = np.clip(centre + radius, 0.0, 1.0) * 2 * bound - bound
    return lower, upper


def bernstein_interval(values: NDArray[np.float64], bound: float, alpha: float) -> tuple[float, float]:
    """The last of `bernstein_bounds`; the whole range without values."""
    if len(values) == 0:
        return -bound, bound
    lower, upper = bernstein_bounds(values, bound, alpha)
    return float(lower[-1]), float(upper[-1])
