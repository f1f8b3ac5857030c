"""Which engine was sent which beginning, and has most likely kept it.

One least-recently-used memory for each engine, of the size of its KV cache: what was sent longest ago is what
the engine has evicted. A chain is touched from its end to its beginning, so within an engine a beginning is
always more recent than what continues it, is evicted later, and presence along a chain is monotone. That is
what lets `match` bisect.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence

DEFAULT_CAPACITY_BYTES = 256 * 1024 * 4
"""256k tokens of about 4 bytes: a mid-sized KV cache."""
DEFAULT_MAX_AGE_S = 3600.0
"""What was not sent for an hour is taken as evicted by traffic that this index did not see."""
MIN_ENTRY_BYTES = 64
"""The least an entry counts against the capacity: bounds memory when prompts are many tiny messages."""


class PrefixIndex:
    """Beginnings by engine, bounded in prompt bytes: at most capacity / MIN_ENTRY_BYTES entries an engine."""

    def __init__(
        self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES, max_age_s: float = DEFAULT_MAX_AGE_S
    ) -> None:
        self._capacity_bytes = capacity_bytes
        self._max_age_s = max_age_s
        self._engines: dict[int, _Memory] = {}

    def set_capacity(self, engine: int, capacity_bytes: int) -> None:
        """How many bytes of prompt the engine's KV cache holds, once that is known."""
        memory = self._memory(engine)
        memory.capacity_bytes = capacity_bytes
        memory.evict()

    def record(self, engine: int, chain: Sequence[int], ends: Sequence[int], at_s: float) -> None:
        """`engine` was sent the prompt named by `chain` at `at_s` (never falling, by the caller's clock)."""
        memory = self._engines.get(engine) or self._memory(engine)
        memory.touch(chain, ends, at_s)
        memory.expire(at_s - self._max_age_s)
        memory.evict()

    def match(self, chain: Sequence[int], ends: Sequence[int]) -> dict[int, int]:
        """Bytes of the longest beginning of `chain` each engine is believed to hold, where it holds any."""
        found: dict[int, int] = {}
        if not chain:
            return found
        first, length = chain[0], len(chain)
        for engine, memory in self._engines.items():
            entries = memory.entries
            if first not in entries:
                continue
            low, high = 1, length  # chain[:low] is held; bisect for how far
            while low < high:
                middle = (low + high) // 2
                if chain[middle] in entries:
                    low = middle + 1
                else:
                    high = middle
            found[engine] = ends[low - 1]
        return found

    def forget(self, engine: int) -> None:
        """Drop what the engine held, and keep its capacity."""
        memory = self._engines.get(engine)
        if memory is not None:
            self._engines[engine] = _Memory(memory.capacity_bytes)

    def entries(self, engine: int) -> int:
        """How many beginnings are remembered of the engine."""
        memory = self._engines.get(engine)
        return len(memory.entries) if memory else 0

    def held_bytes(self, engine: int) -> int:
        """How much of the engine's capacity is taken."""
        memory = self._engines.get(engine)
        return memory.held_bytes if memory else 0

    def _memory(self, engine: int) -> "_Memory":
        memory = self._engines.get(engine)
        if memory is None:
            memory = self._engines[engine] = _Memory(self._capacity_bytes)
        return memory


class _Memory:
    """One engine's entries, oldest first: hash -> (bytes counted, instant)."""

    __slots__ = ("capacity_bytes", "entries", "held_bytes")

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.entries: OrderedDict[int, tuple[int, float]] = OrderedDict()
        self.held_bytes = 0

    def touch(self, chain: Sequence[int], ends: Sequence[int], at_s: float) -> None:
        """Make the chain the most recent, its beginning last. What can never fit is not taken in."""
        fits = min(bisect_right(ends, self.capacity_bytes), self.capacity_bytes // MIN_ENTRY_BYTES)
        entries, move, held = self.entries, self.entries.move_to_end, self.held_bytes
        for i in range(fits - 1, -1, -1):
            link = chain[i]
            known = entries.get(link)
            if known is not None:
                entries[link] = (known[0], at_s)
                move(link)
                continue
            size = ends[i] - ends[i - 1] if i else ends[0]
            if size < MIN_ENTRY_BYTES:
                size = MIN_ENTRY_BYTES
            entries[link] = (size, at_s)
            held += size
        self.held_bytes = held

    def expire(self, before_s: float) -> None:
        entries = self.entries
        while entries:
            link = next(iter(entries))
            size, at_s = entries[link]
            if at_s >= before_s:
                return
            del entries[link]
            self.held_bytes -= size

    def evict(self) -> None:
        while self.held_bytes > self.capacity_bytes:
            _, (size, _) = self.entries.popitem(last=False)
            self.held_bytes -= size
