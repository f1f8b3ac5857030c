"""How far are distributions apart?  The phase in which all arms score the control's tokens."""

from collections.abc import Sequence
from typing import Any

from analysis.given_scores import counted, given_scores
from analysis.measure import PairRecord
from analysis.stats.windows import Windows

_ENOUGH_AMISS = 10  # pairs in a row in which the control's tokens were not scored
TOGETHER = 10  # pairs in one unit; of their order, for how fast they come says nothing here


class ScoredPhase:
    """Counts pairs until there are `wanted`, or it turns out that there will be none.

    In each pair the control's own tokens are scored by the control, by the control again, and by every
    candidate.  These are prefills, in which nothing is decoded: no timing is judged.  The floor is the
    control against itself, in the same pairs; the excess is a candidate's value less it, pair by pair, both
    as far as they count.
    """

    def __init__(self, wanted: int, candidates: Sequence[str], *, alpha: float) -> None:
        self._wanted = wanted
        self._candidates = candidates
        self._windows = Windows(TOGETHER, TOGETHER)  # a pair's number stands for its instant
        self._alpha = alpha
        self._amiss = 0
        self.pairs = 0
        self.why: str | None = None

    @property
    def is_over(self) -> bool:
        """Enough was seen, or there is nothing to see."""
        return self.why is not None or self.pairs >= self._wanted

    def give_up(self, why: str) -> None:
        """Nothing can be scored."""
        self.why = self.why or why

    def add(self, record: PairRecord) -> None:
        """Takes one pair; it counts where the control scored it twice, and a candidate did."""
        floor = counted(record.outputs.get("control", {}))
        told = {name: counted(record.outputs.get(name, {})) for name in self._candidates}
        scored = {name: found for name, found in told.items() if found}
        if not floor or not scored:
            self._amiss += 1
            if self._amiss >= _ENOUGH_AMISS:
                self.give_up(_amiss(record))
            return
        self._amiss = 0
        values = {f"{metric} control": value for metric, value in floor.items()}
        for name, found in scored.items():
            values |= {f"{metric} {name}": value for metric, value in found.items()}
            both = floor.keys() & found.keys()
            values |= {f"{metric} excess of {name}": found[metric] - floor[metric] for metric in both}
        self._windows.add(self.pairs, values)
        self.pairs += 1
        if self.is_over:
            self._windows.finish()

    def show(self) -> dict[str, Any]:
        """JSON-able: how far it is, why it cannot be, and each candidate's distances with their excess."""
        return {
            "pairs": self.pairs,
            "wanted_pairs": self._wanted,
            "windows": self._windows.units,
            "why": self.why,
            "outputs": {name: given_scores(self._windows, name, self._alpha) for name in self._candidates},
        }


def _amiss(record: PairRecord) -> str:
    """Which engine did not score, and how that ended."""
    for answer in record.answers:
        if answer.fault is not None:
            return f"{answer.arm} does not score tokens it is given ({answer.fault})"
    return "no token was scored"
