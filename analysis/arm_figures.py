"""What did one arm do?  Answers, failures and latencies, as they came."""

from typing import Any

from analysis.measure import LATENCIES, AnswerMeasure, latencies_ms
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


class ArmFigures:
    """The figures of one arm: counts, and percentiles over the latest answers that succeeded."""

    def __init__(self, spec: ExperimentSpec) -> None:
        self._spec = spec
        self.answers = 0
        self.errors = 0
        self._faults: dict[str, int] = {}
        self._latencies = [Latest() for _ in LATENCIES]
        self._judged = 0
        self._in_slo = 0

    def add(self, answer: AnswerMeasure) -> None:
        """Counts one answer; one that the shadow itself cancelled is none."""
        if answer.fault == NOT_A_FAULT:
            return
        self.answers += 1
        if answer.fault is not None:
            self.errors += 1
            self._faults[answer.fault] = self._faults.get(answer.fault, 0) + 1
        else:
            for latest, value in zip(self._latencies, latencies_ms(answer), strict=True):
                if value is not None:
                    latest.add(value)
        if answer.streamed or answer.fault is not None:
            self._judged += 1
            self._in_slo += meets_slo(self._spec, answer)

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
