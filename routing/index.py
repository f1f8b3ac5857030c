"""Which engine was sent which beginning, and has most likely kept it.

One least-recently-used memory for each engine, of the size of its KV cache: it lets go of what the engine has
most likely evicted, so what is in flight is kept, what ended longest ago goes first, and answers take room.
Within an engine a beginning is at least as recent as what continues it and is evicted later, so presence
along a chain is monotone, and `match` bisects.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from routing.recency import Trunk
from routing.roots import Roots
from routing.runs import Runs, held_of

DEFAULT_CAPACITY_BYTES: Final = 256 * 1024 * 4
"""256k tokens of about 4 bytes: a mid-sized KV cache."""
DEFAULT_MAX_AGE_S: Final = 3600.0
"""What was not sent for an hour is taken as evicted by traffic that this index did not see."""
MIN_ENTRY_BYTES: Final = 64
"""The least an entry counts against the capacity: bounds memory when prompts are many tiny messages."""
_FULL: Final = 0.9


class PrefixIndex:
    """Beginnings by engine, bounded in prompt bytes: at most capacity / MIN_ENTRY_BYTES entries an engine."""

    def __init__(
        self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES, max_age_s: float = DEFAULT_MAX_AGE_S
    ) -> None:
        self._capacity_bytes = capacity_bytes
        self._max_age_s = max_age_s
        # What is recorded within a step has one instant: one object, not one for each prompt.
        self._step_s = max_age_s / 1024
        self._at_s = 0.0
        self._engines: dict[int, Runs] = {}
        self._roots = Roots()
        self._sizes: dict[int, int] = {}
        self._shares: dict[int, float] = {}

    def set_capacity(self, engine: int, capacity_bytes: int) -> None:
        """How many bytes of prompt the engine's KV cache holds, once that is known."""
        self._sizes[engine] = capacity_bytes
        self._resize(engine)

    def set_share(self, engine: int, share: float) -> None:
        """What share of that is taken to be there for prompts; 1 until this is called."""
        if self._shares.get(engine, 1.0) != share:
            self._shares[engine] = share
            self._resize(engine)

    def is_full(self, engine: int) -> bool:
        """Whether something had to go for want of room: what is not here any more is not held."""
        runs = self._engines.get(engine)
        return runs is not None and runs.held_bytes > _FULL * runs.capacity_bytes

    def record(
        self, engine: int, chain: Sequence[int], ends: Sequence[int], at_s: float, is_ours: bool = True
    ) -> None:
        """`engine` was sent the prompt named by `chain` at `at_s` (never falling, by the caller's clock).

        What can never fit is not taken in. Until `confirm` says that the engine took it, `retract` undoes
        it. `is_ours`: it is in flight until `release`.
        """
        runs = self._engines.get(engine)
        if runs is None:
            runs = self._runs(engine)
        if at_s - self._at_s >= self._step_s:
            self._at_s = at_s
        runs.touch(chain, ends, self._at_s, is_ours)
        runs.expire(at_s - self._max_age_s)
        if runs.held_bytes > runs.capacity_bytes:
            runs.evict()

    def release(self, engine: int, chain: Sequence[int]) -> None:
        """A request that was recorded has ended. Once for each `record`."""
        runs = self._engines.get(engine)
        if runs is not None and chain:
            runs.release(chain[-1])

    def confirm(self, engine: int, chain: Sequence[int]) -> None:
        """The engine answers that prompt: it holds it now."""
        runs = self._engines.get(engine)
        if runs is not None and chain:
            runs.confirm(chain[-1])

    def answer(self, engine: int, chain: Sequence[int], size: int) -> None:
        """The engine answers that prompt with `size` bytes, and holds them, too."""
        runs = self._engines.get(engine)
        if runs is not None and chain:
            runs.answer(chain[-1], size)

    def retract(self, engine: int, chain: Sequence[int]) -> None:
        """The engine refused that prompt or failed at it: what nobody else has sent it there is not held."""
        runs = self._engines.get(engine)
        if runs is not None and chain:
            runs.retract(chain[-1])

    def match(self, chain: Sequence[int], ends: Sequence[int]) -> dict[int, int]:
        """Bytes of the longest beginning of `chain` each engine is believed to hold, where it holds any."""
        found: dict[int, int] = {}
        if chain:
            for root in self._roots.holders(chain[0]):
                trunk = root.parent
                assert isinstance(trunk, Trunk)
                found[trunk.engine] = ends[held_of(chain, trunk.entries) - 1]
        return found

    def beyond(self, chain: Sequence[int], ends: Sequence[int], known: Mapping[int, int]) -> dict[int, int]:
        """As `match`; but an engine of which is known how many bytes it holds has those, and one more where
        it is believed to hold more. That takes one look into its memory, whatever the chain's length."""
        found = dict(known)
        if not chain:
            return found
        length = len(chain)
        places: dict[int, int] = {}
        for root in self._roots.holders(chain[0]):
            trunk = root.parent
            assert isinstance(trunk, Trunk)
            engine, entries = trunk.engine, trunk.entries
            held = known.get(engine)
            if held is None:
                found[engine] = ends[held_of(chain, entries) - 1]
                continue
            at = places.get(held)
            if at is None:
                at = places[held] = bisect_right(ends, held)
            if not at or (at < length and chain[at] in entries):
                found[engine] = held + 1
        return found

    def held(self, engine: int, chain: Sequence[int], ends: Sequence[int]) -> int:
        """What `match` has of one engine."""
        runs = self._engines.get(engine)
        links = 0 if runs is None or not chain else runs.held(chain)
        return ends[links - 1] if links else 0

    def forget(self, engine: int) -> None:
        """Drop what the engine held, and keep its capacity."""
        runs = self._engines.get(engine)
        if runs is not None:
            runs.clear()

    def entries(self, engine: int) -> int:
        """How many beginnings are remembered of the engine."""
        runs = self._engines.get(engine)
        return 0 if runs is None else runs.trunk.links

    def used_bytes(self, engine: int) -> int:
        """How much of what the engine holds is of requests in flight; what they share counts once."""
        runs = self._engines.get(engine)
        return 0 if runs is None else runs.used_bytes

    def in_use(self, engine: int, chain: Sequence[int], ends: Sequence[int]) -> int:
        """Bytes of the longest beginning of `chain` that requests in flight there have, too."""
        runs = self._engines.get(engine)
        if runs is None or not chain:
            return 0
        links = runs.in_use(chain)
        return ends[links - 1] if links else 0

    def held_bytes(self, engine: int) -> int:
        """How much of the engine's capacity is taken."""
        runs = self._engines.get(engine)
        return 0 if runs is None else runs.held_bytes

    def _resize(self, engine: int) -> None:
        capacity_bytes = int(self._sizes.get(engine, self._capacity_bytes) * self._shares.get(engine, 1.0))
        runs = self._runs(engine)
        if runs.capacity_bytes != capacity_bytes:
            runs.capacity_bytes = capacity_bytes
            runs.evict()

    def _runs(self, engine: int) -> Runs:
        runs = self._engines.get(engine)
        if runs is None:
            runs = Runs(engine, self._capacity_bytes, MIN_ENTRY_BYTES, self._roots)
            self._engines[engine] = runs
        return runs
