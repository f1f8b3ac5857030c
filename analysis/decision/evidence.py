"""What do the judged pairs say beside their mean latencies?  Failures, SLOs, single latencies for tails."""

from array import array
from collections.abc import Collection
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from analysis.arm_figures import has_slo, meets_slo
from analysis.measure import AnswerMeasure, Latency, PairRecord
from analysis.spec import ExperimentSpec
from analysis.stats.contrast import NOT_A_FAULT
from analysis.stats.windows import FEWEST_PAIRS
from analysis.verdict import Interval, share_interval


@dataclass(slots=True)
class _Counts:
    """The candidate's answers of one window, and those of them that were amiss."""

    answers: int = 0
    amiss: int = 0


@dataclass(frozen=True, slots=True)
class Paired:
    """One latency of all pairs that have it, in ms, and the window of each; an answer without it is inf."""

    control: NDArray[np.float64]
    candidate: NDArray[np.float64]
    windows: NDArray[np.int64]


class _Column:
    __slots__ = ("candidate", "control", "windows")

    def __init__(self) -> None:
        self.control, self.candidate = array("d"), array("d")
        self.windows = array("q")


class Evidence:
    """Takes the pairs that a trial judges (`Trial(watch=...)`); the order in which they come is no matter.

    Single latencies are kept only of those in `tails`, for they take memory: 24 bytes a pair.
    """

    def __init__(self, spec: ExperimentSpec, tails: Collection[Latency] = ()) -> None:
        self._spec = spec
        self._tails = tuple(tails)
        self._failed: dict[str, dict[int, _Counts]] = {name: {} for name in spec.candidates}
        self._missed: dict[str, dict[int, _Counts]] = {name: {} for name in spec.candidates}
        self._columns = {(name, latency): _Column() for name in spec.candidates for latency in self._tails}

    def add(self, record: PairRecord, window: int) -> None:
        """Counts one judged pair; `window` is the number of its window."""
        ours = record.answer("control")
        for name in self._spec.candidates:
            theirs = record.answer(name)
            if ours is None or theirs is None or NOT_A_FAULT in (ours.fault, theirs.fault):
                continue
            failed = self._failed[name].setdefault(window, _Counts())
            failed.answers += 1
            failed.amiss += theirs.fault is not None
            if has_slo(self._spec):
                self._judge(name, window, theirs)
            for latency in self._tails:
                _keep(self._columns[name, latency], latency, window, ours, theirs)

    def _judge(self, name: str, window: int, answer: AnswerMeasure) -> None:
        if not answer.streamed and answer.fault is None:
            return  # an answer in one piece has no first token to judge
        missed = self._missed[name].setdefault(window, _Counts())
        missed.answers += 1
        missed.amiss += not meets_slo(self._spec, answer)

    def failures(self, candidate: str, alpha: float) -> Interval | None:
        """The share of its answers that failed, by an interval for every look; None below two windows."""
        return _share(self._failed[candidate], alpha)

    def misses(self, candidate: str, alpha: float) -> Interval | None:
        """The share of its answers beyond an SLO, failures among them, in the same way; None without SLO."""
        return _share(self._missed[candidate], alpha)

    def paired(self, candidate: str, latency: Latency) -> Paired:
        """One latency of every pair.  KeyError for one that was not asked for."""
        column = self._columns[candidate, latency]
        kept = (np.array(column.control), np.array(column.candidate), np.array(column.windows))
        order = np.lexsort((kept[1], kept[0], kept[2]))  # of the pairs alone, not of how they came
        ours, theirs, windows = (values[order] for values in kept)
        return Paired(ours, theirs, windows)


def _keep(column: _Column, latency: Latency, window: int, ours: AnswerMeasure, theirs: AnswerMeasure) -> None:
    misses = [_misses(answer, latency) for answer in (ours, theirs)]
    if all(misses):
        return  # as in `Horizons`: of a pair that both miss neither is slower
    control, candidate = (
        inf if missed else answer.latency_ms(latency)
        for answer, missed in zip((ours, theirs), misses, strict=True)
    )
    if control is None or candidate is None:
        return
    column.control.append(control)
    column.candidate.append(candidate)
    column.windows.append(window)


def _misses(answer: AnswerMeasure, latency: Latency) -> bool:
    """Whether it failed or, of the visible text, is an answer with tokens of which none is text."""
    is_hidden = latency == "visible" and answer.ttft_ms is not None and answer.visible_ms is None
    return answer.fault is not None or is_hidden


def _share(windows: dict[int, _Counts], alpha: float) -> Interval | None:
    units = [counts for _, counts in sorted(windows.items()) if counts.answers >= FEWEST_PAIRS]
    return share_interval([(counts.amiss, counts.answers) for counts in units], alpha)
