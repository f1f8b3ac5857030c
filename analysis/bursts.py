"""Do both arms say as many tokens at a time?  Where one speculates, its gaps are between more of them."""

from math import log

import numpy as np

from analysis.checks import FEWEST, Check
from analysis.columns import Columns, added
from analysis.counts import counted_alike

_MARGIN = 0.10


class Bursts:
    """How many tokens come at a time, of one candidate and of the control beside it.

    ITL is the raw gap between arrivals. Between arrivals of three tokens and of one it is no comparison: the
    time per token is TPOT's.
    """

    def __init__(self, candidate: str) -> None:
        self._candidate = candidate
        self._pairs = 0
        self._tokens = [0.0, 0.0]  # control's, candidate's: sums of the answers' means

    def add(self, columns: Columns) -> None:
        """Takes live pairs; those count whose tokens are counted in the same way."""
        both = [columns.side(arm).number("arrival_tokens") for arm in ("control", self._candidate)]
        known = ~np.isnan(both[0]) & ~np.isnan(both[1])
        known &= counted_alike(columns.side("control"), columns.side(self._candidate))
        self._pairs += int(known.sum())
        self._tokens = [added(total, side[known]) for total, side in zip(self._tokens, both, strict=True)]

    def check(self) -> Check:
        """Withholds ITL where the two differ by more than a tenth."""
        if self._pairs < FEWEST:
            return Check("token_bursts", None, "too few streams whose tokens are counted yet", ("itl",))
        ours, theirs = (tokens / self._pairs for tokens in self._tokens)
        detail = f"{self._candidate} says {theirs:.2f} tokens at a time, control {ours:.2f}"
        ok = abs(log(theirs) - log(ours)) <= log(1.0 + _MARGIN)
        return Check("token_bursts", ok, detail, ("itl",))
