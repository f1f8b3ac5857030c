"""How likely is a token to be the first that differs from the control's, given that none before it did?

The divergence hazard h does not fall with length: answers of L tokens stay the same with chance (1 - h)^L.
It is a ratio of means, of answers that diverge to tokens that could have been the first to.
"""

from dataclasses import replace

import numpy as np

from analysis.columns import Columns, Floats
from analysis.score_intervals import RUN
from analysis.stats.sequence import OF_SCORES
from analysis.stats.windows import Windows
from analysis.verdict import Interval, interval

HAZARD = "divergence_hazard"  # its name among the floors that a calibration fixes
_SERIES = ("diverged", "compared_tokens")


def hazard_series(columns: Columns, arm: str) -> dict[str, Floats]:
    """What the pairs add to the windows, by "name arm"; NaN where answers or tokens are not compared."""
    diverged, tokens = 1.0 - columns.output(arm, "exact_match"), columns.compared_tokens(arm)
    unknown = np.isnan(diverged) | np.isnan(tokens)
    found = (np.where(unknown, np.nan, values) for values in (diverged, tokens))
    return {f"{name} {arm}": values for name, values in zip(_SERIES, found, strict=True)}


def hazard_interval(windows: Windows, arm: str, alpha: float) -> tuple[Interval | None, int]:
    """The hazard with its confidence sequence, None below two windows; and of how many windows.

    By the delta method: the sequence is that of the windows' residuals d - h t, over the mean of t.  As of
    all scores, a run of answers that nobody has seen yet is imagined, which differ at their first token.
    """
    series = [f"{name} {arm}" for name in _SERIES]
    table = windows.table(series)
    diverged, tokens = table[~np.isnan(table).any(axis=1)].T
    if len(tokens) < 2:
        return None, len(tokens)
    h, residuals, per_token = linearised(diverged, tokens)
    prior = (RUN * per_token / windows.pairs_per_unit(series[0])) ** 2
    found = interval(residuals, alpha, prior, OF_SCORES)
    return None if found is None else replace(found, mean=h), len(tokens)


def linearised(diverged: Floats, tokens: Floats) -> tuple[float, Floats, float]:
    """The ratio of the means, by how much each value moves it, and what one more that diverges counts."""
    per_token = 1.0 / float(np.mean(tokens))
    h = float(np.mean(diverged)) * per_token
    return h, (diverged - h * tokens) * per_token, per_token
