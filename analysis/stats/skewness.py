"""How many units does it take until the mean of what is skewed is about normal?"""

from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from analysis.stats.sequence import FEWEST_UNITS

_PER_SQUARED_SKEWNESS = 75.0  # Cochran's 25 are for one look at independent units (`bench.verdicts`)
_GROUPS = (1, 2, 4, 8, 16)  # neighbours that depend on each other hide in single units how skewed they are
_FEWEST_GROUPS = 4  # of fewer the skewness is chance


def fewest_units(units: NDArray[np.float64]) -> float:
    """The larger of what skewness and dependence ask for, as far as these units show it; infinite where they
    are all alike, for then they show nothing.

    n > 25 G^2 (Cochran, Sampling Techniques, 1977, 2.15), G Fisher's skewness; of groups of neighbouring
    units, too.  And as many as are worth 15 independent ones.
    """
    if len(units) < 2 or units.min() == units.max():
        return inf
    single, spread, skewed = 0.0, 0.0, 0.0
    for size in _GROUPS:
        count = len(units) // size
        if count < (2 if size == 1 else _FEWEST_GROUPS):
            break
        means = units[: count * size].reshape(count, size).mean(axis=1)
        centred = means - means.mean()
        variance = size * float(centred @ centred) / count
        single = single or variance
        spread = max(spread, variance)
        third = size**2 * float((centred**3).mean())
        skewed = max(skewed, _PER_SQUARED_SKEWNESS * third**2 / max(single, variance) ** 3)
    return ceil(max(FEWEST_UNITS, skewed, FEWEST_UNITS * spread / single))
