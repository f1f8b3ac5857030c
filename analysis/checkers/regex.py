"""Does an answer hold this pattern?"""

import re
from dataclasses import dataclass

from analysis.checkers._checker import Checker

_MOST_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class Params:
    """`pattern` as Python's `re` reads it; `whole`: it is all of the text, white space around it aside."""

    pattern: str
    whole: bool = False
    ignore_case: bool = False


class Regex:
    """Looks for the pattern in the text's first 100,000 characters."""

    def __init__(self, params: Params) -> None:
        try:
            self._pattern = re.compile(params.pattern, re.IGNORECASE if params.ignore_case else 0)
        except re.error as error:
            raise ValueError(f"not a pattern: {error}") from None
        self._whole = params.whole

    def passes(self, text: str) -> bool:
        text = text[:_MOST_CHARS]
        found = self._pattern.fullmatch(text.strip()) if self._whole else self._pattern.search(text)
        return found is not None


def build(params: Params) -> Checker:
    """The checker with these parameters; ValueError where they make none."""
    return Regex(params)
