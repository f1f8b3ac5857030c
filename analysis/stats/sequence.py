"""How sure can one be of a mean, at every look?  Two-sided confidence sequences."""

from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

# The asymptotic sequence is narrowest about this many units in: 40 windows is a little over a minute at the
# shortest window, and at 15 and at 500 windows the price is a few per cent of the radius.
OPTIMAL_UNITS = 40

FEWEST_UNITS = 15  # below, the normal approximation misses more often than it says


def asymptotic_radius(sd: float, units: int, alpha: float, optimal_units: int = OPTIMAL_UNITS) -> float:
    """The radius around the running mean of `units` units with standard deviation `sd`, at level 1 - alpha.

    Asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (Annals of Statistics
    52(6), 2024): s sqrt(2 (t r^2 + 1) / (t^2 r^2) log(sqrt(t r^2 + 1) / alpha)), r^2 for t = `optimal_units`.
    """
    if units < 1:
        return float("inf")
    r2 = (2 * log(1 / alpha) + log(2 * log(1 / alpha)) + 1) / optimal_units
    tr2 = units * r2
    return sd * sqrt(2 * (tr2 + 1) / (units * tr2) * log(sqrt(tr2 + 1) / alpha))


def bernstein_interval(values: NDArray[np.float64], bound: float, alpha: float) -> tuple[float, float]:
    """The interval for the mean of `values`, which lie in [-bound, bound], at level 1 - alpha at every look.

    Predictable plug-in empirical-Bernstein sequence (Waudby-Smith and Ramdas, JRSS B 86(1), 2024). It assumes
    no normality, so it is wider: a verdict that holds here too is one to promote a candidate on. The values
    come in order of time; what is estimated is the mean of the clipped values.
    """
    units = len(values)
    if units == 0:
        return -bound, bound
    x = (np.clip(values, -bound, bound) + bound) / (2 * bound)
    t = np.arange(1, units + 1, dtype=np.float64)
    mu = (0.5 + np.cumsum(x)) / (t + 1)
    v = (0.25 + np.cumsum((x - mu) ** 2)) / (t + 1)
    mu_before = np.concatenate(([0.5], mu[:-1]))
    v_before = np.concatenate(([0.25], v[:-1]))
    bets = np.minimum(np.sqrt(2 * log(2 / alpha) / (v_before * t * np.log1p(t))), 0.5)
    psi = (-np.log1p(-bets) - bets) / 4
    total = float(np.sum(bets))
    centre = float(np.sum(bets * x)) / total
    radius = (log(2 / alpha) + float(np.sum(4 * (x - mu_before) ** 2 * psi))) / total
    return _unscale(centre - radius, bound), _unscale(centre + radius, bound)


def _unscale(x: float, bound: float) -> float:
    return min(1.0, max(0.0, x)) * 2 * bound - bound
