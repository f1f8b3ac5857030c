"""How much more often does a candidate fail, miss its objectives, or answer slowly?  Shares, by window.

Yes-or-no figures of pairs that depend on their neighbours: each window's difference of shares is one unit of
the asymptotic sequence, so they hold at every look.  E-processes on the single pairs would not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from analysis.arm_figures import has_slo, meets_slo
from analysis.measure import LATENCIES, AnswerMeasure, PairRecord, latencies_ms
from analysis.spec import ExperimentSpec
from analysis.stats.contrast import NOT_A_FAULT
from analysis.stats.sequence import FEWEST_UNITS
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

    def add(self, record: PairRecord) -> dict[str, float]:
        """Counts one pair; what it adds to the series of windows, by their names: -1, 0 or 1."""
        ours, theirs = record.answer("control"), record.answer(self._candidate)
        if ours is None or theirs is None or NOT_A_FAULT in (ours.fault, theirs.fault):
            return {}
        values = {}
        for rate, amiss in self._amiss(ours, theirs).items():
            if (count := self._counts.get(rate)) is None:
                count = self._counts[rate] = _Count()
            count.pairs += 1
            count.control += amiss[0]
            count.candidate += amiss[1]
            values[f"{rate} {self._candidate}"] = float(amiss[1]) - float(amiss[0])
        return values

    def _amiss(self, ours: AnswerMeasure, theirs: AnswerMeasure) -> dict[str, tuple[bool, bool]]:
        found = {"errors": (ours.fault is not None, theirs.fault is not None)}
        if has_slo(self._spec) and all(
            answer.streamed or answer.fault is not None for answer in (ours, theirs)
        ):
            found["slo"] = (not meets_slo(self._spec, ours), not meets_slo(self._spec, theirs))
        times = zip(LATENCIES, latencies_ms(ours), latencies_ms(theirs), strict=True)
        for latency, control, candidate in times:
            bound = self._slow_ms.get(latency)
            if bound is None:
                continue
            mine, other = _is_slow(ours, control, bound), _is_slow(theirs, candidate, bound)
            if mine is not None and other is not None:
                found[f"slow_{latency}"] = (mine, other)
        return found

    def show(self, windows: Windows | None, alpha: float) -> dict[str, dict[str, Any]]:
        """Each rate, JSON-able: both shares, by how much the candidate's exceeds the control's with the
        interval of that, and what follows: MORE, FEWER, NO_MORE (by a hundredth at most) or UNDECIDED."""
        shown = {}
        for rate, count in sorted(self._counts.items()):
            found = None
            if windows is not None:
                series = f"{rate} {self._candidate}"
                held = windows.pairs_per_unit(series)
                # One imagined pair that differs: windows without any have no variance and prove no zero.
                found = interval(windows.means(series), alpha, 1.0 / held**2 if held else 0.0)
            latency = rate.removeprefix("slow_")
            shown[rate] = {
                "control": count.control / count.pairs,
                "candidate": count.candidate / count.pairs,
                "pairs": count.pairs,
                "excess": None if found is None else found.mean,
                "lower": None if found is None else max(-1.0, found.lower),
                "upper": None if found is None else min(1.0, found.upper),
                "units": 0 if found is None else found.units,
                "label": _label(found),
                "beyond_ms": self._slow_ms.get(latency) if latency != rate else None,
            }
        return shown


def _is_slow(answer: AnswerMeasure, value_ms: float | None, bound_ms: float) -> bool | None:
    if answer.fault is not None:
        return True
    return None if value_ms is None else value_ms > bound_ms


def _label(found: Interval | None) -> RateLabel:
    if found is None or found.units < FEWEST_UNITS:
        return "UNDECIDED"
    if found.lower > 0.0:
        return "MORE"
    if found.upper < 0.0:
        return "FEWER"
    return "NO_MORE" if found.upper <= MARGIN else "UNDECIDED"
