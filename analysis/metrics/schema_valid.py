"""Does an answer keep to the schema it was asked to keep to?"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.metrics._json import json_of
from analysis.metrics._metric import Metric, Symmetry, Unit, flagged
from analysis.transcript import Choice, Content

if TYPE_CHECKING:
    from analysis.schema import Schema


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class SchemaValid:
    """1 where only the candidate's does, -1 where only the control's does; None where none was asked for."""

    same: float = 0.0
    symmetry: Symmetry = "odd"
    unit: Unit = "difference"

    def score(self, control: Content, candidate: Content) -> float | None:
        schema = None if control.asked is None else control.asked.schema
        if schema is None:
            return None
        return flagged(control, candidate, lambda choice: _keeps(choice, schema))


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return SchemaValid()


def _keeps(choice: Choice, schema: "Schema") -> bool | None:
    try:
        return schema.holds(json_of(choice.text))
    except ValueError:
        return False
