"""Do two answers come to the same number?"""

import re
from dataclasses import dataclass
from decimal import Decimal

from analysis.metrics._metric import Metric, Symmetry, Unit, average, matched
from analysis.transcript import Content

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_LONGEST = 64  # characters of a number that is looked at


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class FinalNumber:
    """1 where the last number of both is the same, else 0; mean over the choices of which either has one."""

    same: float = 1.0
    symmetry: Symmetry = "even"
    unit: Unit = "share"

    def score(self, control: Content, candidate: Content) -> float | None:
        scores = []
        for ours, theirs in matched(control, candidate):
            if ours.text == theirs.text:
                if final_number(ours.text) is not None:
                    scores.append(1.0)
                continue
            a, b = final_number(ours.text), final_number(theirs.text)
            if a is not None or b is not None:
                scores.append(1.0 if a == b else 0.0)
        return average(scores)


def build(_params: Params) -> Metric:
    """The metric with these parameters."""
    return FinalNumber()


def final_number(text: str) -> Decimal | None:
    """The last number of a text, its thousands' commas removed, as GSM8K's own evaluation takes it."""
    last = max(map(text.rfind, "0123456789"))  # an answer comes at the end
    if last < 0:
        return None
    numbers = _NUMBER.findall(text, max(0, last - _LONGEST), last + 1)
    return Decimal(numbers[-1].replace(",", ""))
