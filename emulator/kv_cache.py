"""Which KV-cache blocks hold what: paged, shared by prefix, evicted least recently used first.

A block that is full and computed is named by the hash of its tokens chained onto its parent's, the chain
rooted in cache salt and LoRA. Freed blocks keep their name until they are needed for something else,
tails before heads. Where there is a tier in the host's memory they move there then: a named block is in one
of the two.
"""

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xxhash import xxh3_64_intdigest

from emulator.host_tier import HostTier


@dataclass(frozen=True, slots=True)
class Stored:
    """Blocks that can be found from now on; `block_hashes` continue `parent`."""

    block_hashes: tuple[int, ...]
    parent: int | None
    token_ids: tuple[int, ...]
    salt: str
    lora: str
    is_host: bool = False


@dataclass(frozen=True, slots=True)
class Removed:
    """Blocks that can no longer be found: on the device, or in the host's memory."""

    block_hashes: tuple[int, ...]
    is_host: bool = False


@dataclass(frozen=True, slots=True)
class Cleared:
    """Every block was forgotten."""


CacheEvent = Stored | Removed | Cleared


class Lease:
    """The blocks of one sequence.  `tokens` are the sequence's own, prompt and output."""

    __slots__ = ("blocks", "chain", "committed", "lora", "reads", "salt", "tokens")

    def __init__(self, tokens: Sequence[int], chain: Sequence[int], salt: str, lora: str) -> None:
        self.tokens = tokens
        self.chain = chain
        self.salt = salt
        self.lora = lora
        self.blocks: list[int] = []
        self.committed = 0  # leading blocks that are full, computed and named
        self.reads = 0, 0  # from which block to which it has yet to load


class KvCache:
    """`num_blocks` blocks of `block_size` tokens, and `host_blocks` in the host's memory."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        host_blocks: int = 0,
        prefix_caching: bool = True,
        record_events: bool = False,
        seed: int = 0,
    ) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._prefix_caching = prefix_caching
        self._record = record_events
        self._seed = seed
        self._references = [0] * num_blocks
        self._name: list[int | None] = [None] * num_blocks
        self._named: dict[int, int] = {}
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))
        self._host = HostTier(host_blocks) if host_blocks else None
        self._told: dict[int, Stored] = {}  # what a named block is told as when it moves to the host
        self._events: list[CacheEvent] = []

    @property
    def free_blocks(self) -> int:
        """Blocks no sequence uses."""
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of blocks in use, 0..1."""
        return 1.0 - len(self._free) / self.num_blocks

    def lease(self, tokens: Sequence[int], salt: str = "", lora: str = "") -> Lease:
        """An empty lease for a sequence that will hold `tokens`."""
        return Lease(tokens, self._chain(tokens, salt, lora), salt, lora)

    def held(self, lease: Lease, limit_tokens: int) -> int:
        """How many leading tokens of `lease` are cached, whole blocks and at most `limit_tokens`."""
        return self._here(lease.chain[: limit_tokens // self.block_size]) * self.block_size

    def loadable(self, lease: Lease, cached_tokens: int, limit_tokens: int) -> int:
        """How many tokens behind the `cached_tokens` that are held can be loaded from the host's memory.

        As in `held`; what is held again behind a block that is not counts, too: it is copied.
        """
        size = self.block_size
        return self._below(lease.chain[cached_tokens // size : limit_tokens // size]) * size

    def reach(self, chain: Sequence[int]) -> tuple[int, int]:
        """How many leading blocks of a chain are held, and how many behind those can be loaded."""
        here = self._here(chain)
        return here, self._below(chain[here:])

    def has(self, name: int) -> bool:
        """Whether a block of that name can be found on the device now."""
        return name in self._named

    def has_below(self, name: int) -> bool:
        """Whether a block of that name can be found in the host's memory now."""
        return self._host is not None and name in self._host

    def open(self, lease: Lease, cached_tokens: int, total_tokens: int, load_tokens: int = 0) -> bool:
        """Its cached tokens and room for `total_tokens` to an empty lease; False, nothing taken, if full.

        `load_tokens` behind the cached ones are going to be loaded: what the host's memory has of them stays.
        """
        hits = [self._named[name] for name in lease.chain[: cached_tokens // self.block_size]]
        revived = sum(1 for block in hits if self._references[block] == 0)
        fresh = -(-total_tokens // self.block_size) - len(hits)
        if fresh > len(self._free) - revived:
            return False
        for block in hits:
            if self._references[block] == 0:
                del self._free[block]
            self._references[block] += 1
        lease.blocks.extend(hits)
        lease.committed = len(hits)
        if load_tokens and self._host is not None:
            lease.reads = len(hits), len(hits) + load_tokens // self.block_size
            self._host.read(lease.chain[slice(*lease.reads)])
        self._take(lease, fresh)
        return True

    def grow(self, lease: Lease, total_tokens: int) -> bool:
        """Room for `total_tokens` in all; False, and nothing taken, if there are not enough blocks."""
        fresh = -(-total_tokens // self.block_size) - len(lease.blocks)
        if fresh > len(self._free):
            return False
        if fresh > 0:
            self._take(lease, fresh)
        return True

    def commit(self, lease: Lease, computed_tokens: int) -> None:
        """The first `computed_tokens` are computed: their full blocks can be found by others."""
        full = computed_tokens // self.block_size
        if full <= lease.committed:
            return
        start, lease.committed = lease.committed, full
        if not self._prefix_caching:
            return
        self._read(lease, full)
        stored_from, raised = start, []
        for index in range(start, full):
            name = lease.chain[index]
            if (
                name in self._named
            ):  # another sequence computed the same at the same time; this copy stays nameless
                self._stored(lease, stored_from, index)
                stored_from = index + 1
                continue
            block = lease.blocks[index]
            self._named[name] = block
            self._name[block] = name
            if self._host is not None and self._host.discard(name):
                raised.append(name)
        self._stored(lease, stored_from, full)
        if raised and self._record:
            self._events.append(Removed(tuple(raised), is_host=True))

    def close(self, lease: Lease) -> None:
        """The sequence ended or was preempted: its blocks are free, the tail to be evicted first."""
        for block in reversed(lease.blocks):
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free[block] = None
                if self._name[block] is None:
                    self._free.move_to_end(block, last=False)
        lease.blocks.clear()
        lease.committed = 0
        self._read(lease, len(lease.chain))

    def reset(self) -> bool:
        """Forget every prefix; False, and nothing done, while sequences use blocks."""
        if len(self._free) != self.num_blocks:
            return False
        for block in self._named.values():
            self._name[block] = None
        self._named.clear()
        self._told.clear()
        if self._host is not None:
            self._host.clear()
        if self._record:
            self._events.append(Cleared())
        return True

    def drain_events(self) -> list[CacheEvent]:
        """What was stored and removed since the last call, in order."""
        events, self._events = self._events, []
        return events

    def check(self, leases: Iterable[Lease]) -> None:
        """AssertionError unless the books are right for exactly these open leases."""
        references = [0] * self.num_blocks
        for lease in leases:
            assert lease.committed <= len(lease.blocks) <= -(-len(lease.tokens) // self.block_size)
            for block in lease.blocks:
                references[block] += 1
        assert references == self._references, "reference counts differ from the leases"
        assert set(self._free) == {block for block, count in enumerate(references) if count == 0}
        assert {name: block for block, name in enumerate(self._name) if name is not None} == self._named
        below = self._host.names() if self._host is not None else set()
        assert not below & self._named.keys(), "a block is in both tiers"
        assert not self._told or self._told.keys() == self._named.keys() | below

    def _here(self, chain: Sequence[int]) -> int:
        count = 0
        for name in chain:
            if name not in self._named:
                break
            count += 1
        return count

    def _below(self, chain: Sequence[int]) -> int:
        host, count = self._host, 0
        if host:
            for name in chain:
                if name not in host and name not in self._named:
                    break
                count += 1
        return count

    def _take(self, lease: Lease, count: int) -> None:
        removed: list[int] = []
        for _ in range(count):
            block, _none = self._free.popitem(last=False)
            name = self._name[block]
            if name is not None:
                del self._named[name]
                self._name[block] = None
                removed.append(name)
            self._references[block] = 1
            lease.blocks.append(block)
        if removed and self._record:
            self._events.append(Removed(tuple(removed)))
        if removed and self._host is not None:
            self._sink(self._host, removed)

    def _read(self, lease: Lease, until: int) -> None:
        """Of what is loaded, what comes before that block needs not to stay below any more."""
        begin, end = lease.reads
        if self._host is not None and begin < min(until, end):
            lease.reads = min(until, end), end
            self._host.was_read(lease.chain[begin : min(until, end)])

    def _sink(self, host: HostTier, names: Sequence[int]) -> None:
        """What was evicted moves to the host's memory, whose own oldest blocks go."""
        gone = [lost for name in names if (lost := host.put(name)) is not None]
        if not self._record:
            return
        refused = set(gone) & set(names)
        self._events.extend([self._told[name] for name in names if name not in refused])
        if len(gone) > len(refused):
            self._events.append(Removed(tuple(name for name in gone if name not in refused), is_host=True))
        for name in gone:
            del self._told[name]

    def _stored(self, lease: Lease, start: int, end: int) -> None:
        if end <= start or not self._record:
            return
        tokens = tuple(lease.tokens[start * self.block_size : end * self.block_size])
        parent = lease.chain[start - 1] if start else None
        self._events.append(Stored(tuple(lease.chain[start:end]), parent, tokens, lease.salt, lease.lora))
        if self._host is not None:
            size = self.block_size
            for place, name in enumerate(lease.chain[start:end]):
                own = tokens[place * size : (place + 1) * size]
                self._told[name] = Stored((name,), parent, own, lease.salt, lease.lora, is_host=True)
                parent = name

    def _chain(self, tokens: Sequence[int], salt: str, lora: str) -> list[int]:
        packed = memoryview(array("I", tokens).tobytes())
        name = xxh3_64_intdigest(f"{len(salt)}:{salt}{lora}".encode(), self._seed)
        width = self.block_size * 4
        chain: list[int] = []
        for end in range(width, len(packed) + 1, width):
            name = xxh3_64_intdigest(packed[end - width : end], name)
            chain.append(name)
        return chain
