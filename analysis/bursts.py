"""Do both arms say as many tokens at a time?  Where one speculates, its gaps are between more of them."""

from math import log

from analysis.checks import FEWEST, Check
from analysis.measure import PairRecord

_MARGIN = 0.10


class Bursts:
    """How many tokens come at a time, of one candidate and of the control beside it.

    ITL is the raw gap between arrivals. Between arrivals of three tokens and of one it is no comparison: the
    time per token is TPOT's.
    """

    def __init__(self, candidate: str) -> None:
        self._candidate = candidate
        self._pairs = 0
        self._tokens = [0.0, 0.0]  # control's, candidate's: sums of the answers' means

    def add(self, record: PairRecord) -> None:
        """Takes one live pair."""
        ours, theirs = record.answer("control"), record.answer(self._candidate)
        if ours is None or theirs is None or ours.arrival_tokens is None or theirs.arrival_tokens is None:
            return
        self._pairs += 1
        self._tokens[0] += ours.arrival_tokens
        self._tokens[1] += theirs.arrival_tokens

    def check(self) -> Check:
        """Withholds ITL where the two differ by more than a tenth."""
        if self._pairs < FEWEST:
            return Check("token_bursts", None, "too few streams whose tokens are counted yet", ("itl",))
        ours, theirs = (tokens / self._pairs for tokens in self._tokens)
        detail = f"{self._candidate} says {theirs:.2f} tokens at a time, control {ours:.2f}"
        ok = abs(log(theirs) - log(ours)) <= log(1.0 + _MARGIN)
        return Check("token_bursts", ok, detail, ("itl",))
