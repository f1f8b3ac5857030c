"""How much more often does a candidate fail, miss its objectives, or answer slowly?  Shares, by window.

Yes-or-no figures of pairs that depend on their neighbours: each window's difference of shares is one unit of
the asymptotic sequence, so they hold at every look.  E-processes on the single pairs would not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from analysis.arm_figures import has_slo, in_slo
from analysis.columns import Bools, Columns, Floats, Side
from analysis.measure import LATENCIES, Latency
from analysis.spec import ExperimentSpec
from analysis.stats.sequence import FEWEST_UNITS, OF_SHARES
from analysis.stats.windows import Windows
from analysis.verdict import Interval, interval

RateLabel = Literal["MORE", "FEWER", "NO_MORE", "UNDECIDED"]

MORE_ERRORS = "fails more often"
MARGIN = 0.01  # one answer in a hundred more is what matters


@dataclass(slots=True)
class _Count:
    pairs: int = 0
    control: int = 0
    candidate: int = 0


class Rates:
    """The shares of one candidate and of the control beside it, over the same pairs.

    "errors": failed; "slo": beyond an objective (where one is set, and the answer is streamed); "slow_ttft"
    and the like: longer than `slow_ms`, which the calibration fixed.  A failed answer is also slow and beyond
    its objective.  What the shadow itself cancelled says nothing.
    """

    def __init__(self, candidate: str, spec: ExperimentSpec, slow_ms: Mapping[str, float]) -> None:
        self._candidate = candidate
        self._spec = spec
        self._slow_ms = slow_ms
        self._counts: dict[str, _Count] = {}

    def add(self, columns: Columns) -> dict[str, Floats]:
        """Counts pairs; what they add to the series of windows, by name: the difference, -1, 0 or 1, and the
        control's own, 0 or 1; NaN for nothing."""
        ours, theirs = columns.side("control"), columns.side(self._candidate)
        counts = ours.present & theirs.present & ~ours.cancelled & ~theirs.cancelled
        values = {}
        for rate, (known, mine, other) in self._amiss(ours, theirs).items():
            said = known & counts
            if not said.any():
                continue
            count = self._counts.setdefault(rate, _Count())
            count.pairs += int(said.sum())
            count.control += int((said & mine).sum())
            count.candidate += int((said & other).sum())
            values[f"{rate} {self._candidate}"] = np.where(said, other.astype(float) - mine, np.nan)
            values[f"{rate} control by {self._candidate}"] = np.where(said, mine.astype(float), np.nan)
        return values

    def _amiss(self, ours: Side, theirs: Side) -> dict[str, tuple[Bools, Bools, Bools]]:
        """Of each rate: where something can be said, and where either arm's answer is amiss."""
        found = {"errors": (np.ones(len(ours.failed), dtype=bool), ours.failed, theirs.failed)}
        if has_slo(self._spec):
            judged = (ours.streamed | ours.failed) & (theirs.streamed | theirs.failed)
            found["slo"] = (judged, ~in_slo(self._spec, ours), ~in_slo(self._spec, theirs))
        for latency in LATENCIES:
            if (bound_ms := self._slow_ms.get(latency)) is None:
                continue
            known, slow = zip(*(_slow(side, latency, bound_ms) for side in (ours, theirs)), strict=True)
            found[f"slow_{latency}"] = (known[0] & known[1], *slow)
        return found

    def show(self, windows: Windows | None, alpha: float) -> dict[str, dict[str, Any]]:
        """Each rate, JSON-able: both shares, by how much the candidate's exceeds the control's with the
        interval of that, and what follows: MORE, FEWER, NO_MORE (by a hundredth at most) or UNDECIDED.

        All are means of the same windows, each of which counts once; before there are any, the shares are
        of all pairs."""
        shown = {}
        for rate, count in sorted(self._counts.items()):
            found = None
            if windows is not None:
                series = f"{rate} {self._candidate}"
                held = windows.pairs_per_unit(series)
                # One imagined pair that differs: windows without any have no variance and prove no zero.
                found = interval(windows.means(series), alpha, 1.0 / held**2 if held else 0.0, OF_SHARES)
            ours, theirs = count.control / count.pairs, count.candidate / count.pairs
            if found is not None and windows is not None:
                ours = float(windows.means(f"{rate} control by {self._candidate}").mean())
                theirs = ours + found.mean
            latency = rate.removeprefix("slow_")
            shown[rate] = {
                "control": ours,
                "candidate": theirs,
                "pairs": count.pairs,
                "excess": None if found is None else found.mean,
                "lower": None if found is None else max(-1.0, found.lower),
                "upper": None if found is None else min(1.0, found.upper),
                "units": 0 if found is None else found.units,
                "label": _label(found),
                "beyond_ms": self._slow_ms.get(latency) if latency != rate else None,
            }
        return shown


def _slow(side: Side, latency: Latency, bound_ms: float) -> tuple[Bools, Bools]:
    """Where it can be said whether an answer is slow, and where it is."""
    values, missed = side.latency_ms(latency), side.missed(latency)
    return missed | ~np.isnan(values), missed | (values > bound_ms)


def _label(found: Interval | None) -> RateLabel:
    if found is None or found.units < FEWEST_UNITS:
        return "UNDECIDED"
    if found.lower > 0.0:
        return "MORE"
    if found.upper < 0.0:
        return "FEWER"
    return "NO_MORE" if found.upper <= MARGIN else "UNDECIDED"
