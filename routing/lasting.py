"""How much of what an engine holds will still be there when a request's turn comes?

While prompts wait at an engine, computing them evicts what was used longest ago, and that may be what a
request was sent there for.  The memory of what was sent (`routing.index`) has those prompts in it already,
and drops what no longer fits: what it still has of this prompt will last, and what of it those prompts have,
too, will have come by then.  How large that memory may be is
learned here from what answers found: blocks that are not full and requests of other gateways take room that
it does not see.
"""

from collections.abc import Collection
from typing import Final

TOLERATED_BLOCKS: Final = 2
_LESS: Final = 0.97
_MORE: Final = 1.006
"""Five answers that found more than was promised weigh as much as one that found less."""
_FIRST: Final = 0.9
_LEAST: Final = 0.05
_MOST: Final = 1.5


class Shares:
    """Of each engine: what share of its KV cache the prompts that were sent there have for themselves."""

    __slots__ = ("_by_engine",)

    def __init__(self) -> None:
        self._by_engine: dict[int, float] = {}

    def of(self, engine: int) -> float:
        """The engine's share."""
        return self._by_engine.get(engine, _FIRST)

    def told(self, engine: int, promised: int, held: int, cached: int, block_tokens: int) -> None:
        """An answer to a request before which others waited: tokens that were promised to last, those that
        were held when it was sent, those that were found."""
        tolerated = TOLERATED_BLOCKS * block_tokens
        if promised - cached > tolerated:
            self._by_engine[engine] = max(_LEAST, self.of(engine) * _LESS)
        elif promised < held and cached - promised > tolerated:
            self._by_engine[engine] = min(_MOST, self.of(engine) * _MORE)

    def keep(self, engines: Collection[int]) -> None:
        """These are the engines now: another may have the number of one that left."""
        self._by_engine = {engine: share for engine, share in self._by_engine.items() if engine in engines}
