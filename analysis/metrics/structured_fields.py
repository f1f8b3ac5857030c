"""Do two answers in JSON say the same, field by field?"""

from dataclasses import dataclass
from typing import Any

from analysis.metrics._json import fenced_json_of, leaves
from analysis.metrics._metric import Metric, Symmetry, Unit, average, matched
from analysis.transcript import Content


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class StructuredFields:
    """The share of fields (scalars by their path) with the same value, of those of either; mean over choices.

    None where neither answer is a JSON object or list; 0 where one is and the other is not.
    """

    same: float = 1.0
    symmetry: Symmetry = "even"
    unit: Unit = "share"

    def score(self, control: Content, candidate: Content) -> float | None:
        scores = []
        for ours, theirs in matched(control, candidate):
            a, b = _fields(ours.text), _fields(theirs.text)
            if a is None and b is None:
                continue
            if a is None or b is None:
                scores.append(0.0)
                continue
            either = a.keys() | b.keys()
            alike = sum(1 for path in a.keys() & b.keys() if a[path] == b[path])
            scores.append(alike / len(either))
        return average(scores)


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return StructuredFields()


def _fields(text: str) -> dict[Any, Any] | None:
    start = text[:64].lstrip()
    if not start.startswith(("{", "[", "```")):
        return None  # most answers are prose, and need no parser to be told so
    try:
        value = fenced_json_of(text)
        return leaves(value) if isinstance(value, dict | list) else None
    except (ValueError, RecursionError):
        return None
