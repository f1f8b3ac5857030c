"""What does one publisher hold in lower tiers, in host memory or in a store, beside its device?

For each tier that it tells of, all that can be found there or above: so who holds a block mostly holds all
before it, there as on the device, and one look-up finds how far a prompt reaches in each.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from routing.events.board import State
from routing.events.book import FullError
from routing.events.decode import DEVICE, Removed, Stored
from routing.events.holdings import Holdings, Marks

REASONS: Final = (
    "block_size",
    "conflict",
    "group",
    "malformed",
    "tokenless",
    "too_many_blocks",
    "unknown_parent",
)
"""Why something that was told of a lower tier was not taken in; counted with `tier_` before it."""


class LowerMarks(Marks, Protocol):
    """A bit and a row of their own."""

    def tell(self, state: State, block_size: int, ghosts: int, held: int, begun: int = 0) -> None:
        """As `book.Marked.tell`."""
        ...

    def close(self) -> None:
        """Nothing is held any more."""
        ...


class Lower:
    """`open_tier(tier)` gives the marks of a tier that is told of for the first time, or raises FullError."""

    def __init__(self, open_tier: Callable[[int], LowerMarks], most_blocks: int) -> None:
        self._open_tier = open_tier
        self._most_blocks = most_blocks
        self._tiers: dict[int, tuple[LowerMarks, Holdings]] = {}

    def held(self) -> dict[int, int]:
        """Blocks that can be found in each tier or above."""
        return {tier: holdings.held for tier, (_, holdings) in sorted(self._tiers.items())}

    def holdings(self) -> list[Holdings]:
        """Of each tier, the uppermost first."""
        return [holdings for _, holdings in self._tiers.values()]

    def take(self, events: Sequence[Stored | Removed], device: Holdings) -> list[str]:
        """Take in events, none a clearing, before `device`, what is on the device, does; why some were not.

        What is stored comes first: an engine tells of what moved down after it has told that it left.
        """
        for event in events:
            if event.tier != DEVICE and event.tier not in self._tiers:
                self._begin(event.tier, device)
        if not self._tiers:
            return ["tier"] * sum(1 for event in events if isinstance(event, Stored) and event.tier)
        refused: list[str] = []
        every = self.holdings()
        for tier, (_, holdings) in self._tiers.items():
            for event in events:
                if isinstance(event, Stored) and event.tier <= tier:
                    reason = holdings.store(event, every)
                    if reason is not None and event.tier == tier:
                        refused.append(f"tier_{reason}")
            for event in events:
                if isinstance(event, Removed) and event.tier <= tier:
                    holdings.remove(event)
        return refused

    def clear(self) -> None:
        """Nothing is held any more, or nothing is known of it."""
        for _, holdings in self._tiers.values():
            holdings.clear()

    def tell(self, state: State, begun: int) -> None:
        """How far the publisher is believed."""
        for marks, holdings in self._tiers.values():
            marks.tell(state, holdings.block_size, holdings.ghosts, holdings.held, begun)

    def close(self) -> None:
        """The publisher is gone."""
        self.clear()
        for marks, _ in self._tiers.values():
            marks.close()
        self._tiers = {}

    def _begin(self, tier: int, device: Holdings) -> None:
        above = [holdings for other, (_, holdings) in sorted(self._tiers.items()) if other < tier]
        try:
            marks = self._open_tier(tier)
        except FullError:
            return  # then nothing is known of it
        self._tiers[tier] = marks, (above[-1] if above else device).copied(marks, self._most_blocks)
        self._tiers = dict(sorted(self._tiers.items()))
