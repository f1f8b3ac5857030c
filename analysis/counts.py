"""Are the tokens of both arms counted in the same way?  TPOT is a time by a count."""

from collections import Counter
from typing import Final, get_args

from analysis.checks import FEWEST, Check
from analysis.columns import Bools, Columns, Side
from analysis.transcript import TokenSource

_OTHERWISE = 0.01  # of the pairs
_GUESS: Final = "chunks"  # events, each of which may be of several tokens
_SOURCES: Final[tuple[TokenSource, ...]] = get_args(TokenSource)


def counted_alike(ours: Side, theirs: Side) -> Bools:
    """The pairs whose tokens are counted, and in the same way; events that were counted for want of better
    are no such count."""
    found: Bools = ours.ok & theirs.ok & False
    for source in _SOURCES:
        if source != _GUESS:
            found |= ours.counted(source) & theirs.counted(source)
    return found


class Counts:
    """Where the token counts of one candidate and of the control beside it are from."""

    def __init__(self, candidate: str) -> None:
        self._candidate = candidate
        self._pairs = 0
        self._otherwise = 0
        self._guessed = 0
        self._sources: tuple[Counter[str], Counter[str]] = (Counter(), Counter())

    def add(self, columns: Columns) -> None:
        """Takes live pairs; those count of which both answers have a time per token."""
        sides = [columns.side(arm) for arm in ("control", self._candidate)]
        timed = sides[0].ok & sides[1].ok
        for side in sides:
            timed &= side.latency_ms("tpot") > 0.0
        self._pairs += int(timed.sum())
        self._otherwise += int((timed & ~counted_alike(*sides)).sum())
        self._guessed += int((timed & (sides[0].counted(_GUESS) | sides[1].counted(_GUESS))).sum())
        for known, side in zip(self._sources, sides, strict=True):
            known.update({source: int((timed & side.counted(source)).sum()) for source in _SOURCES})

    def check(self) -> Check:
        """Withholds TPOT where counts are made differently, or events stand for them, in over 1 % of pairs;
        with the latter ITL, too, for nothing tells how many tokens come at a time."""
        if self._pairs < FEWEST:
            return Check("token_source", None, "too few streams whose tokens are counted yet", ("tpot",))
        ours, theirs = map(_words, self._sources)
        detail = f"{self._candidate}: tokens counted by {theirs}, control by {ours}"
        bound = _OTHERWISE * self._pairs
        withholds = ("itl", "tpot") if self._guessed > bound else ("tpot",)
        return Check("token_source", self._otherwise <= bound, detail, withholds)


def _words(sources: Counter[str]) -> str:
    every = sources.total()
    told = [(source, n / every) for source, n in sources.most_common() if n]
    return ", ".join(f"{source} ({share:.0%})" if len(told) > 1 else source for source, share in told)
