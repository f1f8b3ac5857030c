"""Is an answer garbage?"""

import re
from dataclasses import dataclass

from analysis.metrics._metric import Metric, Symmetry, Unit, flagged, spoken
from analysis.transcript import Choice, Content

_SHARE = 0.02
_FEWEST = 3  # one that stands at a cut is none
_NOISE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1d\x7f\ufffd\ue000-\uf8ff\ufdd0-\ufdef\ufff0-\ufff8]")


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class Garbage:
    """1 where only the candidate's is, -1 where only the control's is; mean over choices.

    Garbage: more than one character in fifty is no character (U+FFFD, control, private or unassigned).
    """

    same: float = 0.0
    symmetry: Symmetry = "odd"
    unit: Unit = "difference"

    def score(self, control: Content, candidate: Content) -> float | None:
        return flagged(control, candidate, is_garbage)


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return Garbage()


def is_garbage(choice: Choice) -> bool:
    """Whether what a choice says is hardly text."""
    text = spoken(choice)
    noise = len(_NOISE.findall(text))
    return noise >= _FEWEST and noise > _SHARE * len(text)
