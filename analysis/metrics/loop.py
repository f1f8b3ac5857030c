"""Does an answer run in circles?"""

from dataclasses import dataclass

from analysis.metrics._metric import Metric, Symmetry, Unit, flagged, spoken
from analysis.transcript import Choice, Content

_SEEN = 32  # characters that must come again
_TIMES = 6
_SHORTEST = 192  # characters that a loop fills, whatever its period: a ruler of dashes is none


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class Loop:
    """1 where only the candidate ends in a loop, -1 where only the control does; mean over choices."""

    same: float = 0.0
    symmetry: Symmetry = "odd"
    unit: Unit = "difference"

    def score(self, control: Content, candidate: Content) -> float | None:
        return flagged(control, candidate, loops)


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return Loop()


def loops(choice: Choice) -> bool:
    """Whether the end of a choice is one piece, six times or more."""
    text = spoken(choice)
    if len(text) < _SHORTEST:
        return False
    end = text[-_SEEN:]
    before = text.rfind(end, 0, len(text) - 1)
    if before < 0:
        return False
    period = len(text) - _SEEN - before
    length = max(_TIMES * period, _SHORTEST)
    return length <= len(text) and text[-length:-period] == text[-length + period :]
