"""What is a metric?  The protocol, and what a choice says in one string."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Literal, Protocol

from analysis.transcript import Choice, Content


class Metric(Protocol):
    """Compares two answers to the same request.

    An answer against itself scores `same`. Exchanging the two answers keeps the score where `symmetry` is
    "even" and negates it where it is "odd".
    """

    @property
    def same(self) -> float: ...

    @property
    def symmetry(self) -> Literal["even", "odd"]: ...

    def score(self, control: Content, candidate: Content) -> float | None:
        """The difference, or None where these answers have nothing to compare."""
        ...


def matched(control: Content, candidate: Content) -> Iterator[tuple[Choice, Choice]]:
    """The choices side by side by index; one that is missing is an empty one."""
    ours = {choice.index: choice for choice in control.choices}
    theirs = {choice.index: choice for choice in candidate.choices}
    for index in sorted(ours.keys() | theirs.keys()):
        yield ours.get(index) or Choice(index), theirs.get(index) or Choice(index)


def spoken(choice: Choice) -> str:
    """Everything a choice says, in one string: reasoning, text, calls."""
    if not choice.reasoning and not choice.tool_calls:
        return choice.text
    calls = "".join(f"\x1e{call.name}\x1f{call.arguments}" for call in choice.tool_calls)
    return f"{choice.reasoning}\x1e{choice.text}{calls}"


def average(scores: list[float]) -> float | None:
    """Their mean, None for none."""
    return sum(scores) / len(scores) if scores else None


def paired_calls(
    control: Choice, candidate: Choice
) -> list[tuple[tuple[str, str] | None, tuple[str, str] | None]]:
    """The calls of two choices by position, as (name, arguments)."""
    ours = [(call.name, call.arguments) for call in control.tool_calls]
    theirs = [(call.name, call.arguments) for call in candidate.tool_calls]
    return list(zip_longest(ours, theirs))
