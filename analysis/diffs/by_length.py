"""How often is an answer the control's to the letter, among answers that are about as long?

Exact matches fall with length, so a mean over all of them says as much of lengths as of answers.
"""

from bisect import bisect_left

import numpy as np

from analysis.columns import Columns, Floats

BANDS = (16, 64, 256, 1024)  # the most tokens of the control's answer in each band but the last
NAMES = (
    *(f"{low + 1}-{high}" for low, high in zip((0, *BANDS), BANDS, strict=False)),
    f"{BANDS[-1] + 1} and more",
)


def band_series(columns: Columns, arm: str) -> dict[str, Floats]:
    """What the pairs add to the windows, by "series arm" (`series_of`); NaN where they are of other bands."""
    same, tokens = columns.output(arm, "exact_match"), columns.side("control").number("completion_tokens")
    which = np.where(np.isnan(tokens), -1, np.searchsorted(BANDS, tokens))
    return {
        f"{series_of(name)} {arm}": np.where(which == number, same, np.nan)
        for number, name in enumerate(NAMES)
    }


def series_of(name: str) -> str:
    """The name of a band's series, and of its floor."""
    return f"exact_match {name}"


def band_of(tokens: float) -> str:
    """The band of an answer of so many tokens."""
    return NAMES[bisect_left(BANDS, tokens)]
