"""Is an answer JSON, where JSON was asked for?"""

from dataclasses import dataclass

from analysis.metrics._json import json_of
from analysis.metrics._metric import Metric, Symmetry, Unit, flagged
from analysis.transcript import Choice, Content


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class JsonValid:
    """1 where only the candidate's is, -1 where only the control's is; None where no JSON was asked for."""

    same: float = 0.0
    symmetry: Symmetry = "odd"
    unit: Unit = "difference"

    def score(self, control: Content, candidate: Content) -> float | None:
        if control.asked is None or not control.asked.json:
            return None
        return flagged(control, candidate, _is_json)


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return JsonValid()


def _is_json(choice: Choice) -> bool:
    try:
        json_of(choice.text)
    except ValueError:
        return False
    return True
