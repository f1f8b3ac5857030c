"""What did one arm do?  Answers, failures and latencies, as they came."""

from collections import Counter
from typing import Any

import numpy as np

from analysis.columns import Bools, Side
from analysis.measure import LATENCIES, AnswerMeasure
from analysis.spec import ExperimentSpec
from analysis.stats.contrast import NOT_A_FAULT
from analysis.stats.quantile import Latest


def has_slo(spec: ExperimentSpec) -> bool:
    """Whether any bound is set."""
    return spec.slo_ttft_ms is not None or spec.slo_tpot_ms is not None


def meets_slo(spec: ExperimentSpec, answer: AnswerMeasure) -> bool:
    """Whether an answer keeps within every bound set; a failed one does not."""
    if answer.fault is not None:
        return False
    ttft, tpot = spec.slo_ttft_ms, spec.slo_tpot_ms
    if ttft is not None and (answer.ttft_ms is None or answer.ttft_ms > ttft):
        return False
    # An answer of one token has no time per token, and misses nothing by that.
    return tpot is None or answer.tpot_ms is None or answer.tpot_ms <= tpot


def in_slo(spec: ExperimentSpec, side: Side) -> Bools:
    """`meets_slo` of every answer of an arm; False where there is none."""
    met = side.ok.copy()
    if spec.slo_ttft_ms is not None:
        met &= side.latency_ms("ttft") <= spec.slo_ttft_ms
    if spec.slo_tpot_ms is not None:
        tpot = side.latency_ms("tpot")
        met &= np.isnan(tpot) | (tpot <= spec.slo_tpot_ms)
    return met


class ArmFigures:
    """The figures of one arm: counts, and percentiles over the latest answers that succeeded."""

    def __init__(self, spec: ExperimentSpec) -> None:
        self._spec = spec
        self.answers = 0
        self.errors = 0
        self._faults: Counter[str] = Counter()
        self._latencies = [Latest() for _ in LATENCIES]
        self._judged = 0
        self._in_slo = 0

    def add(self, side: Side) -> None:
        """Counts an arm's answers; one that the shadow itself cancelled is none."""
        counted = side.present & ~side.cancelled
        self.answers += int(counted.sum())
        faults = [fault for fault in side.faults if fault != NOT_A_FAULT]
        self.errors += len(faults)
        self._faults.update(faults)
        for latest, latency in zip(self._latencies, LATENCIES, strict=True):
            values = side.latency_ms(latency)[side.ok]
            latest.add(values[~np.isnan(values)])
        judged = counted & (side.streamed | side.failed)
        self._judged += int(judged.sum())
        self._in_slo += int((judged & in_slo(self._spec, side)).sum())

    def show(self) -> dict[str, Any]:
        """The figures, JSON-able. `slo_met`: the share of streams within the SLOs, None where none is set."""
        return {
            "n": self.answers,
            "errors": self.errors,
            "faults": dict(sorted(self._faults.items())),
            "slo_met": self._in_slo / self._judged if has_slo(self._spec) and self._judged else None,
            **{
                f"{latency}_ms": latest.percentiles()
                for latency, latest in zip(LATENCIES, self._latencies, strict=True)
            },
        }
