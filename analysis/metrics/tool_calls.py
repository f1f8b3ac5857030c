"""Do two answers call the same tools with the same arguments?"""

from dataclasses import dataclass

from analysis.metrics._json import canonical, json_of
from analysis.metrics._metric import Metric, Symmetry, Unit, average, matched, paired_calls
from analysis.transcript import Content


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """1 where name and arguments (as JSON values) agree, else 0; mean over calls; None without any."""

    same: float = 1.0
    symmetry: Symmetry = "even"
    unit: Unit = "share"

    def score(self, control: Content, candidate: Content) -> float | None:
        scores = []
        for ours, theirs in matched(control, candidate):
            for a, b in paired_calls(ours, theirs):
                alike = a is not None and b is not None and a[0] == b[0] and _same_json(a[1], b[1])
                scores.append(1.0 if alike else 0.0)
        return average(scores)


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return ToolCalls()


def _same_json(a: str, b: str) -> bool:
    if a == b:
        return True
    try:
        return bool(canonical(json_of(a)) == canonical(json_of(b)))
    except (ValueError, RecursionError):  # no JSON, or nested deeper than can be gone through
        return False
