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


def asymptotic_bounds(
    units: NDArray[np.float64], alpha: float, optimal_units: int = OPTIMAL_UNITS
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper end after each of the units (the last axis), which come in order of time.

    The ends after the first unit are infinite: one value has no spread.
    """
    t = np.arange(1, units.shape[-1] + 1, dtype=np.float64)
    # Sums about a value near the mean lose no digits where the mean is large against the spread.
    origin = units[..., :1]
    total = np.cumsum(units - origin, axis=-1)
    squares = np.cumsum((units - origin) ** 2, axis=-1)
    means = total / t
    with np.errstate(divide="ignore", invalid="ignore"):
        sd = np.sqrt(np.maximum(squares - t * means**2, 0.0) / (t - 1))
    unit_radius = np.array([asymptotic_radius(1.0, int(n), alpha, optimal_units) for n in t])
    radii = sd * unit_radius
    radii[..., :1] = np.inf
    return means + origin - radii, means + origin + radii


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
