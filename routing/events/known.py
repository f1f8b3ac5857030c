"""What can be asked of the engines' KV events."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class KnownBlocks(Protocol):
    """Which engine holds which blocks now, by what the engines themselves said."""

    def match(self, blocks: Sequence[int], block_size: int) -> Mapping[int, int]:
        """How many leading blocks of this chain each engine holds; 0 is a statement.

        `blocks` is `chain.block_chain` of the prompt's tokens with this block size, LoRA and salt.  Of an
        engine left out nothing is known for sure: it tells no events, some were lost, or it has another block
        size.  Of an engine with several data-parallel ranks it is their mean,
        rounded down, because the engine chooses the rank.
        """
        ...

    def apart(self, blocks: Sequence[int], block_size: int) -> Mapping[int, Sequence[int]]:
        """Of engines in a match that have several ranks: how many leading blocks each of them holds."""
        ...

    def at_least(self, blocks: Sequence[int], block_size: int) -> Mapping[int, int]:
        """Leading blocks of this chain that engines hold which are not in a match: they may hold more."""
        ...

    def below(self, blocks: Sequence[int], block_size: int) -> Mapping[int, tuple[int, int]]:
        """Leading blocks that can be found in an engine's host memory or above, and in its stores or above.

        Only of engines that tell of such tiers.
        """
        ...

    def judged(self, engine: int, foretold_tokens: int, cached_tokens: int, block_size: int) -> None:
        """What `at_least` said of an engine, and what its answer found: when it is always all, it is all."""
        ...

    def block_sizes(self) -> Mapping[int, int]:
        """Tokens a block, of each engine of whose blocks something is known now."""
        ...
