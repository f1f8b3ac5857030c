"""Which numbers may be typed?  Those that mean something, each refused with what would."""

import argparse
from math import inf, isfinite


def above_zero(text: str) -> float:
    """A number above 0."""
    return _number(text, "a number above 0", least=0.0, is_open=True)


def zero_or_more(text: str) -> float:
    """A number of at least 0."""
    return _number(text, "a number of at least 0", least=0.0)


def share(text: str) -> float:
    """A share: above 0, at most 1."""
    return _number(text, "a share: above 0, at most 1", least=0.0, most=1.0, is_open=True)


def count(text: str) -> int:
    """A whole number of at least 1."""
    return _whole(text, 1)


def count_or_none(text: str) -> int:
    """A whole number of at least 0."""
    return _whole(text, 0)


def loads(text: str) -> list[float]:
    """Numbers above 0 with commas between them."""
    return [_number(one, "numbers above 0, as 0.5,1,2", least=0.0, is_open=True) for one in text.split(",")]


def counts(text: str) -> list[float]:
    """Whole numbers of at least 1 with commas between them."""
    return [float(_whole(one, 1, "whole numbers of at least 1, as 1,2,4")) for one in text.split(",")]


def _number(text: str, expected: str, *, least: float, most: float = inf, is_open: bool = False) -> float:
    try:
        value = float(text)
    except ValueError:
        raise _wrong(expected, text) from None
    if not isfinite(value) or not least <= value <= most or (is_open and value == least):
        raise _wrong(expected, text)
    return value


def _whole(text: str, least: int, expected: str | None = None) -> int:
    expected = expected or f"a whole number of at least {least}"
    try:
        value = int(text)
    except ValueError:
        raise _wrong(expected, text) from None
    if value < least:
        raise _wrong(expected, text)
    return value


def _wrong(expected: str, text: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"expected {expected}, not {text!r}")
