"""Is an engine right about what it holds?  Its answers' `cached_tokens` against what its own events foretold.

An engine whose events promise more than its answers find (a window of attention, blocks dropped in silence,
somebody who publishes in its name) misleads: its requests go where nothing waits for them. It alone is left
out, until it has been right for as long; it is judged meanwhile.  Where no other is right, what is wrong is
not the engine, and `routing.bridge.accuracy` judges.
"""

from collections import deque
from collections.abc import Collection
from typing import Final

WINDOW: Final = 32
LEAST: Final = 16
_TOO_MANY: Final = 0.25
_FEW: Final = 0.05
_TOLERATED_BLOCKS: Final = 2


class Trust:
    """The engines of one fleet, by id."""

    def __init__(self) -> None:
        self.distrusted: set[int] = set()
        self.switches = 0
        """How often an engine was left out, or taken in again."""
        self._last: dict[int, deque[bool]] = {}

    def told(self, engine: int, foretold_tokens: int, cached_tokens: int, block_tokens: int) -> bool:
        """An answer says what was cached of a prompt; whether the engine is believed after it."""
        last = self._last.get(engine)
        if last is None:
            last = self._last[engine] = deque(maxlen=WINDOW)
        last.append(foretold_tokens - cached_tokens > _TOLERATED_BLOCKS * block_tokens)
        is_believed = engine not in self.distrusted
        if len(last) >= LEAST:
            share = sum(last) / len(last)
            if is_believed and share > _TOO_MANY and self._others_are_right(engine):
                self.distrusted.add(engine)
            elif not is_believed and len(last) == WINDOW and share <= _FEW:
                self.distrusted.discard(engine)
            else:
                return is_believed
            self.switches += 1
            last.clear()
        return engine not in self.distrusted

    def _others_are_right(self, engine: int) -> bool:
        return any(
            sum(last) <= _TOO_MANY * len(last)
            for other, last in self._last.items()
            if other != engine and other not in self.distrusted and len(last) >= LEAST // 2
        )

    def keep(self, engines: Collection[int]) -> None:
        """These are the engines now: another may have the number of one that left."""
        self.distrusted.intersection_update(engines)
        self._last = {engine: last for engine, last in self._last.items() if engine in engines}
