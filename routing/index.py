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
"""256k tokens of about 4 bytes: a mid-sized KV cache.

In memory 0.25 MB an engine where messages are of a KB or more, and at most 9 MB, where prompts are of one
tiny message each (`MIN_ENTRY_BYTES`): an entry takes 240 to 560 bytes.
"""
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
        # Who holds a chain's first link: most engines hold nothing of a prompt, and are not asked.
        self._holders: dict[int, set[int]] = {}

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
        length = len(chain)
        for engine in self._holders.get(chain[0], ()):
            entries = self._engines[engine].entries
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
            for link in memory.entries:
                memory.let_go(link)
            self._engines[engine] = _Memory(engine, memory.capacity_bytes, self._holders)

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
            memory = self._engines[engine] = _Memory(engine, self._capacity_bytes, self._holders)
        return memory


class _Memory:
    """One engine's entries, oldest first: hash -> (bytes counted, instant)."""

    __slots__ = ("_engine", "_holders", "capacity_bytes", "entries", "held_bytes")

    def __init__(self, engine: int, capacity_bytes: int, holders: dict[int, set[int]]) -> None:
        self._engine = engine
        self._holders = holders
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
            if i == 0:
                self._holders.setdefault(link, set()).add(self._engine)
        self.held_bytes = held

    def let_go(self, link: int) -> None:
        """The engine no longer holds `link`, which matters here where a chain begins with it."""
        holders = self._holders.get(link)
        if holders is not None:
            holders.discard(self._engine)
            if not holders:
                del self._holders[link]

    def expire(self, before_s: float) -> None:
        entries = self.entries
        while entries:
            link = next(iter(entries))
            size, at_s = entries[link]
            if at_s >= before_s:
                return
            del entries[link]
            self.held_bytes -= size
            self.let_go(link)

    def evict(self) -> None:
        while self.held_bytes > self.capacity_bytes:
            link, (size, _) = self.entries.popitem(last=False)
            self.held_bytes -= size
            self.let_go(link)
