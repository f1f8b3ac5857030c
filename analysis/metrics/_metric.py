"""What is a metric?  The protocol, and what a choice says in one string."""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Literal, Protocol

from analysis.transcript import Choice, Content

# How the mean of a metric's scores is shown: a share (0 to 1), the ratio whose log it is, the difference of
# two shares (candidate - control), or nats.
Unit = Literal["share", "ratio", "difference", "nats"]
Symmetry = Literal["even", "odd", "none"]


class Metric(Protocol):
    """Compares two answers to the same request.

    An answer against itself scores `same`. Exchanging the two answers keeps the score where `symmetry` is
    "even" and negates it where it is "odd".
    """

    @property
    def same(self) -> float: ...

    @property
    def symmetry(self) -> Symmetry: ...

    @property
    def unit(self) -> Unit: ...

    def score(self, control: Content, candidate: Content) -> float | None:
        """The difference, or None where these answers have nothing to compare."""
        ...


def matched(control: Content, candidate: Content) -> Iterator[tuple[Choice, Choice]]:
    """The choices side by side by index; one that is missing is an empty one."""
    if len(control.choices) == len(candidate.choices) == 1:
        ours, theirs = control.choices[0], candidate.choices[0]
        if ours.index == theirs.index:
            yield ours, theirs
            return
    left = {choice.index: choice for choice in control.choices}
    right = {choice.index: choice for choice in candidate.choices}
    for index in sorted(left.keys() | right.keys()):
        yield left.get(index) or Choice(index), right.get(index) or Choice(index)


def spoken(choice: Choice) -> str:
    """Everything a choice says, in one string: reasoning, text, calls."""
    if not choice.reasoning and not choice.tool_calls:
        return choice.text
    calls = "".join(f"\x1e{call.name}\x1f{call.arguments}" for call in choice.tool_calls)
    return f"{choice.reasoning}\x1e{choice.text}{calls}"


def average(scores: list[float]) -> float | None:
    """Their mean, None for none."""
    return sum(scores) / len(scores) if scores else None


def flagged(control: Content, candidate: Content, flag: Callable[[Choice], bool | None]) -> float | None:
    """How much oftener the candidate's choices have a flag, over those of which both can be told."""
    scores = []
    for ours, theirs in matched(control, candidate):
        mine = flag(ours)
        other = mine if ours is theirs else flag(theirs)
        if mine is not None and other is not None:
            scores.append(float(other) - float(mine))
    return average(scores)


def paired_calls(
    control: Choice, candidate: Choice
) -> list[tuple[tuple[str, str] | None, tuple[str, str] | None]]:
    """The calls of two choices by position, as (name, arguments)."""
    ours = [(call.name, call.arguments) for call in control.tool_calls]
    theirs = [(call.name, call.arguments) for call in candidate.tool_calls]
    return list(zip_longest(ours, theirs))
