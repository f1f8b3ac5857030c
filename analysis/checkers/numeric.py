"""Does an answer come to this number?  As GSM8K is scored: by the last number of the text."""

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from analysis.checkers._checker import Checker
from analysis.metrics.final_number import final_number


@dataclass(frozen=True, slots=True)
class Params:
    """`value`, and how far from it still counts."""

    value: float | str
    tolerance: float = 0.0


class Numeric:
    """The last number of the text, its thousands' commas removed, against the value."""

    def __init__(self, params: Params) -> None:
        try:
            self._value = Decimal(str(params.value).replace(",", "").strip())
        except InvalidOperation:
            raise ValueError(f"numeric takes a number as its value, not {params.value!r}") from None
        self._tolerance = Decimal(str(params.tolerance))
        if not (self._value.is_finite() and self._tolerance >= 0):
            raise ValueError("numeric takes a finite value and a tolerance of 0 or more")

    def passes(self, text: str) -> bool:
        found = final_number(text)
        return found is not None and abs(found - self._value) <= self._tolerance


def build(params: Params) -> Checker:
    """The checker with these parameters; ValueError where they make none."""
    return Numeric(params)
