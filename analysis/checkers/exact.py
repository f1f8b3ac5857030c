"""Is an answer this text?"""

from dataclasses import dataclass

from analysis.checkers._checker import Checker


@dataclass(frozen=True, slots=True)
class Params:
    """`value`, or any of `values`; `ignore_case`: capitals and small letters are the same."""

    value: str | None = None
    values: tuple[str, ...] = ()
    ignore_case: bool = False


class Exact:
    """White space around the answer, a full stop after it and quotes around it do not count."""

    def __init__(self, params: Params) -> None:
        given = (*params.values, *(() if params.value is None else (params.value,)))
        if not given:
            raise ValueError("exact takes a value, or values")
        self._ignore_case = params.ignore_case
        self._right = {self._plain(value) for value in given}

    def passes(self, text: str) -> bool:
        return self._plain(text) in self._right

    def _plain(self, text: str) -> str:
        for _ in range(2):  # the full stop stands behind the quotes, or in them
            text = text.strip().removesuffix(".").strip("\"'`* \n")
        return text.casefold() if self._ignore_case else text


def build(params: Params) -> Checker:
    """The checker with these parameters; ValueError where they make none."""
    return Exact(params)
