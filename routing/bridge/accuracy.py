"""How well is foretold what engines have cached? Their own `cached_tokens` against what was said of them.

Too high is what misleads: a request goes where nothing waits for it. When too many of the last answers were
foretold more than two blocks too high, the bridge is not to be believed until it has done better for as long;
it goes on foretelling, and is judged, meanwhile.
"""

from bisect import bisect_left
from collections import deque
from typing import Final

EDGES: Final = (-4096, -1024, -256, -64, -1, 0, 64, 256, 1024, 4096)
"""Upper bounds of the histogram's buckets, in tokens foretold above those cached; the last has none."""
WINDOW: Final = 256
_LEAST: Final = 64
_LEAST_WRONG: Final = 8  # fewer may be chance
_TOO_MANY: Final = 0.03
_FEW: Final = 0.01
_TOLERATED_BLOCKS: Final = 2


class Accuracy:
    """One model's record."""

    def __init__(self) -> None:
        self.buckets = [0] * (len(EDGES) + 1)
        self.error_tokens = 0
        """The sum of all errors."""
        self.predicted_tokens = 0
        self.cached_tokens = 0
        self.found_tokens = 0
        """Of those cached, the tokens that were foretold."""
        self.too_high = 0
        self.mismatched = 0
        """Prompts that were learned with another number of tokens than the engine says."""
        self.switches = 0
        self.is_trusted = True
        self._last: deque[bool] = deque(maxlen=WINDOW)

    @property
    def answers(self) -> int:
        """How many were judged."""
        return sum(self.buckets)

    def told(
        self, predicted_tokens: int, cached_tokens: int, block_tokens: int, judged_tokens: int | None = None
    ) -> None:
        """An engine's answer says what was cached of a prompt.

        `judged_tokens`: by what else than `predicted_tokens` it is judged whether events are right.
        """
        error = predicted_tokens - cached_tokens
        self.buckets[bisect_left(EDGES, error)] += 1
        self.error_tokens += error
        self.predicted_tokens += predicted_tokens
        self.cached_tokens += cached_tokens
        self.found_tokens += min(predicted_tokens, cached_tokens)
        self.too_high += error > 0
        judged = predicted_tokens if judged_tokens is None else judged_tokens
        self._last.append(judged - cached_tokens > _TOLERATED_BLOCKS * block_tokens)
        self._judge()

    def measured(self, learned_tokens: int, prompt_tokens: int) -> None:
        """An engine's answer says how long a prompt is that was learned: another length is a wrong lesson."""
        if learned_tokens != prompt_tokens:
            self.mismatched += 1
            self._last.append(True)
            self._judge()

    def forgive(self) -> None:
        """Judge anew, by what comes from now on: the last errors were those of one engine, now left out."""
        self._last.clear()

    def _judge(self) -> None:
        count = len(self._last)
        if count < _LEAST:
            return
        wrong = sum(self._last)
        share = wrong / count
        if self.is_trusted and share > _TOO_MANY and wrong >= _LEAST_WRONG:
            self.is_trusted = False
        elif not self.is_trusted and count == WINDOW and share <= _FEW:
            self.is_trusted = True
        else:
            return
        self.switches += 1
        self._last.clear()
