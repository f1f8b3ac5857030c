"""By how much did percentiles change?  At numbers of pairs that were fixed beforehand: 1,000, 2,000, 4,000 …

A percentile's interval is good for one look.  So there are few looks, and nobody chooses when: each figure is
made of the first so many pairs and stays until twice as many are there.
"""

from array import array
from collections.abc import Collection, Mapping
from math import exp, inf
from typing import Any

import numpy as np

from analysis.columns import Columns, Ints
from analysis.measure import LATENCIES, Latency
from analysis.stats.bootstrap import (
    HORIZON,
    QuantileEffect,
    fewest_pairs,
    pairs_needed,
    quantile_effects,
    tail_clusters,
)
from analysis.stats.quantile import FEWEST_FOR_P99
from analysis.stats.sequence import FEWEST_UNITS

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
HORIZONS = tuple(FEWEST_FOR_P99 * 2**doubling for doubling in range(5))


class _Column:
    __slots__ = ("candidate", "control", "windows")

    def __init__(self) -> None:
        self.control, self.candidate, self.windows = array("d"), array("d"), array("q")


class Horizons:
    """The first pairs of one candidate, and the change of each latency's percentiles at the latest horizon.

    Of what comes after the last horizon nothing is kept: memory is bounded, 24 bytes a pair and latency.
    A failed answer is infinitely slow; where failures reach a percentile nothing is said of it.  A latency of
    0 says nothing.
    """

    def __init__(self, candidate: str) -> None:
        self._candidate = candidate
        self._columns = {latency: _Column() for latency in LATENCIES}
        self._made: dict[tuple[Latency, int, float], Mapping[str, QuantileEffect | None]] = {}

    def add(self, columns: Columns, windows: Ints) -> None:
        """Takes pairs; `windows` are the numbers of their windows."""
        ours, theirs = columns.side("control"), columns.side(self._candidate)
        counts = ours.present & theirs.present & ~ours.cancelled & ~theirs.cancelled
        for latency, column in self._columns.items():
            room = HORIZONS[-1] - len(column.windows)
            if not room:
                continue
            missed = [side.missed(latency) for side in (ours, theirs)]
            mine, other = (
                np.where(amiss, inf, side.latency_ms(latency))
                for side, amiss in zip((ours, theirs), missed, strict=True)
            )
            said = counts & ~(missed[0] & missed[1])
            taken = np.flatnonzero(said & (mine > 0.0) & (other > 0.0))[:room]
            column.control.extend(mine[taken].tolist())
            column.candidate.extend(other[taken].tolist())
            column.windows.extend(windows[taken].tolist())

    def prepare(self, alpha: float) -> bool:
        """Makes one latency's figures at a horizon that was reached; False where all there are are made."""
        for latency in LATENCIES:
            horizon = self._reached(latency)
            if horizon is not None and (latency, horizon, alpha) not in self._made:
                self._effects(latency, horizon, alpha)
                return True
        return False

    def show(
        self, alpha: float, withheld: Collection[Latency] = (), *, at_hand: bool = False
    ) -> dict[str, dict[str, Any]]:
        """Of each latency: how many pairs are there, the horizon reached, and each percentile's change with
        its interval (ratios), or why there is none.  JSON-able.  Of those `withheld` there is none.

        `at_hand`: of what was not yet made nothing is now: the horizon before it is shown for that long.
        """
        return {latency: self._show(latency, alpha, latency in withheld, at_hand) for latency in LATENCIES}

    def _reached(self, latency: Latency) -> int | None:
        pairs = len(self._columns[latency].windows)
        return max((h for h in HORIZONS if h <= pairs), default=None)

    def _show(self, latency: Latency, alpha: float, is_withheld: bool, at_hand: bool) -> dict[str, Any]:
        pairs, horizon = len(self._columns[latency].windows), self._reached(latency)
        if at_hand and horizon is not None:
            made = (h for h in HORIZONS if (latency, h, alpha) in self._made)
            horizon = max(made, default=None)
        shown: dict[str, Any] = {"pairs": pairs, "horizon": horizon, "holds": HORIZON}
        for name, share in SHARES.items():
            found = None
            if horizon is not None and not is_withheld:
                found = self._effects(latency, horizon, alpha)[name]
            refused = None
            if horizon is None:
                refused = f"{pairs} pairs: the first figures come at {HORIZONS[0]}"
                if pairs >= HORIZONS[0]:
                    refused = f"{pairs} pairs: the first figures are being made"
            elif is_withheld:
                refused = "withheld, as the verdict is"
            elif found is None:
                refused = self._why_not(latency, share, horizon)
            shown[name] = {
                "ratio": None if found is None else exp(found.effect),
                "lower": None if found is None else exp(found.lower),
                "upper": None if found is None else exp(found.upper),
                "refused": refused,
            }
        return shown

    def _effects(self, latency: Latency, horizon: int, alpha: float) -> Mapping[str, QuantileEffect | None]:
        key = (latency, horizon, alpha)
        if key not in self._made:
            column = self._columns[latency]
            ours, theirs = (np.array(side[:horizon]) for side in (column.control, column.candidate))
            blocks = np.array(column.windows[:horizon])
            effects = quantile_effects(ours, theirs, blocks, tuple(SHARES.values()), alpha)
            self._made[key] = dict(zip(SHARES, effects, strict=True))
        return self._made[key]

    def _why_not(self, latency: Latency, share: float, horizon: int) -> str:
        windows = len(set(self._columns[latency].windows[:horizon]))
        if windows < FEWEST_UNITS:
            return f"{windows} windows, {FEWEST_UNITS} needed"
        if horizon < fewest_pairs(share):
            return f"{horizon} pairs, {fewest_pairs(share)} needed"
        column = self._columns[latency]
        ours, theirs = (np.array(side[:horizon]) for side in (column.control, column.candidate))
        clusters = tail_clusters(ours, theirs, np.array(column.windows[:horizon]), share)
        needed = pairs_needed(share, horizon, clusters)
        if horizon < needed:
            return f"answers as slow come in bursts: {horizon} pairs, about {needed} needed"
        return "failures reach this percentile"
