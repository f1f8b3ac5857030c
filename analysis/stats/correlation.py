"""How many neighbouring values carry the news of one?  The integrated autocorrelation time."""

from math import sqrt

import numpy as np
from numpy.typing import NDArray


def autocorrelation_time(values: NDArray[np.float64]) -> float:
    """tau = 1 + 2 sum rho_k over k <= M, with M the smallest at least 5 tau (Sokal's window). At least 1.

    1 for independent values; (1 + rho) / (1 - rho) for an AR(1) sequence. Too few or constant values give 1.
    """
    n = len(values)
    if n < 4 or values.min() == values.max():  # whose mean may be off by its last digit, and looks correlated
        return 1.0
    centred = values - values.mean()
    spectrum = np.fft.rfft(centred, 2 * n)
    covariance = np.fft.irfft(spectrum * np.conj(spectrum), 2 * n)[:n]
    taus = 2.0 * np.cumsum(covariance / covariance[0]) - 1.0
    enough = np.arange(n) >= 5.0 * taus
    last = int(np.argmax(enough)) if enough.any() else n - 1
    return max(1.0, float(taus[last]))


def longest_autocorrelation_time(values: NDArray[np.float64]) -> float:
    """tau and one and a half standard errors more: tau (1 + 1.5 sqrt(2 (10 tau + 1) / n)). At least 1.

    A tau from few values is at times much too short, and what is built on it then claims too much.  The error
    is Sokal's, for a window of 5 tau (Madras and Sokal, J. Stat. Phys. 50, 1988).
    """
    tau = autocorrelation_time(values)
    return tau * (1.0 + 1.5 * sqrt(2.0 * (10.0 * tau + 1.0) / max(1, len(values))))
