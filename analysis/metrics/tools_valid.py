"""Are the calls of an answer of tools it was given, with arguments as those ask?"""

from collections.abc import Mapping
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
class ToolsValid:
    """1 where only the candidate's calls all are, -1 where only the control's; None if either calls none."""

    same: float = 0.0
    symmetry: Symmetry = "odd"
    unit: Unit = "difference"

    def score(self, control: Content, candidate: Content) -> float | None:
        tools = None if control.asked is None else control.asked.tools
        if not tools:
            return None
        return flagged(control, candidate, lambda choice: _are_valid(choice, tools))


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return ToolsValid()


def _are_valid(choice: Choice, tools: "Mapping[str, Schema | None]") -> bool | None:
    if not choice.tool_calls:
        return None
    for call in choice.tool_calls:
        if call.name not in tools:
            return False
        try:
            arguments = json_of(call.arguments or "{}")
        except ValueError:
            return False
        schema = tools[call.name]
        if schema is not None and schema.holds(arguments) is False:
            return False
    return True
