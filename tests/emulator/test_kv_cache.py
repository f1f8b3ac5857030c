"""Laws of the paged, prefix-sharing KV cache and of the tier below it, under any order of use."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from emulator.kv_cache import CacheEvent, Cleared, KvCache, Lease, Removed, Stored

BLOCK = 4


def fill(cache: KvCache, tokens: list[int], salt: str = "", lora: str = "") -> tuple[Lease, int]:
    """A sequence computed to its end: its lease and how many of its tokens were cached."""
    lease = cache.lease(tokens, salt, lora)
    cached = cache.held(lease, len(tokens))
    assert cache.open(lease, cached, len(tokens))
    cache.commit(lease, len(tokens))
    return lease, cached


class Machine(RuleBasedStateMachine):
    """Sequences come, grow, are computed and go; events are applied to a model of what can be found."""

    @initialize(blocks=st.integers(1, 12), host_blocks=st.sampled_from([0, 1, 3, 20]))
    def begin(self, blocks: int, host_blocks: int) -> None:
        self.cache = KvCache(blocks, BLOCK, host_blocks=host_blocks, record_events=True)
        self.host_blocks = host_blocks
        self.open: list[tuple[Lease, int]] = []
        self.published: set[int] = set()
        self.below: set[int] = set()
        self.reading: dict[int, list[int]] = {}  # by lease, what it was promised
        self.told: dict[int, tuple[int | None, tuple[int, ...]]] = {}

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=30), salt=st.sampled_from(["", "a"]))
    def arrive(self, tokens: list[int], salt: str) -> None:
        lease = self.cache.lease(tokens, salt)
        cached = self.cache.held(lease, len(tokens) - 1)
        loads = self.cache.loadable(lease, cached, len(tokens) - 1)
        before = self.cache.free_blocks
        if self.cache.open(lease, cached, min(len(tokens), cached + 3), loads):
            self.open.append((lease, min(len(tokens), cached + 3)))
            first = cached // BLOCK
            read = lease.chain[first : first + loads // BLOCK]
            self.reading[id(lease)] = [name for name in read if name in self.below]
        else:
            assert self.cache.free_blocks == before and not lease.blocks

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def advance(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.open) - 1))
        lease, computed = self.open[index]
        assert all(
            self.cache.has(name) or self.cache.has_below(name)
            for name in self.reading[id(lease)]
            if name in lease.chain[lease.committed :]
        ), "what is being loaded stays until it was"
        self.cache.commit(lease, computed)
        goal = min(len(lease.tokens), computed + data.draw(st.integers(1, 9)))
        before = self.cache.free_blocks
        if self.cache.grow(lease, goal):
            self.open[index] = (lease, goal)
        else:
            assert self.cache.free_blocks == before

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        lease, _ = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        self.cache.close(lease)

    @rule()
    def reset(self) -> None:
        assert self.cache.reset() == (not self.open)

    @invariant()
    def books_are_right(self) -> None:
        self.cache.check(lease for lease, _ in self.open)

    @invariant()
    def events_tell_what_can_be_found(self) -> None:
        for event in self.cache.drain_events():
            self.apply(event)
        for lease, _ in self.open:
            held = self.cache.held(lease, len(lease.tokens)) // BLOCK
            assert all(name in self.published for name in lease.chain[:held])
            assert held == len(lease.chain) or lease.chain[held] not in self.published
            more = self.cache.loadable(lease, held * BLOCK, len(lease.tokens)) // BLOCK
            either = self.published | self.below
            assert all(name in either for name in lease.chain[held : held + more])
            assert not self.below or [*lease.chain, 0][held + more] not in either
        assert len(self.below) <= self.host_blocks and not self.below & self.published
        assert all(self.cache.has_below(name) for name in self.below)

    def apply(self, event: CacheEvent) -> None:
        if isinstance(event, Stored):
            tier = self.below if event.is_host else self.published
            assert len(event.token_ids) == BLOCK * len(event.block_hashes)
            assert not tier & set(event.block_hashes)
            tier |= set(event.block_hashes)
            parent = event.parent
            for place, name in enumerate(event.block_hashes):
                told = parent, event.token_ids[place * BLOCK : (place + 1) * BLOCK]
                assert self.told.setdefault(name, told) == told, "a block is told as it was"
                parent = name
        elif isinstance(event, Removed):
            tier = self.below if event.is_host else self.published
            assert tier >= set(event.block_hashes)
            tier -= set(event.block_hashes)
        else:
            self.published.clear()
            self.below.clear()


TestKvCache = Machine.TestCase
TestKvCache.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_prefix_is_shared_and_a_salt_or_lora_keeps_it_apart() -> None:
    cache = KvCache(32, BLOCK)
    tokens = list(range(12))
    fill(cache, tokens)
    assert fill(cache, [*tokens, 99])[1] == 12
    assert fill(cache, tokens, salt="s")[1] == 0
    assert fill(cache, tokens, lora="l")[1] == 0
    assert fill(cache, tokens, salt="s")[1] == 12


def test_tails_are_evicted_before_heads_and_old_before_new() -> None:
    cache = KvCache(4, BLOCK)
    old, _ = fill(cache, list(range(8)))
    cache.close(old)
    new, _ = fill(cache, list(range(50, 58)))
    cache.close(new)
    cache.close(fill(cache, [7] * BLOCK)[0])
    assert cache.held(cache.lease(list(range(8))), 8) == 4
    assert cache.held(cache.lease(list(range(50, 58))), 8) == 8


def test_what_is_evicted_moves_to_the_host_and_back_when_it_is_loaded() -> None:
    cache = KvCache(3, BLOCK, host_blocks=4, record_events=True)
    tokens = list(range(8))
    lease, _ = fill(cache, tokens)
    cache.close(lease)
    cache.close(fill(cache, [7] * 12)[0])
    cache.drain_events()
    again = cache.lease(tokens)
    assert (cache.held(again, 8), cache.loadable(again, 0, 8), cache.loadable(again, 0, 7)) == (0, 8, 4)
    assert cache.open(again, 0, 8, 8)
    cache.commit(again, 8)
    gone, *sunk, stored, raised = cache.drain_events()
    assert isinstance(gone, Removed) and not gone.is_host
    told = [(one.is_host, *one.block_hashes) for one in sunk if isinstance(one, Stored)]
    assert told == [(True, name) for name in gone.block_hashes] and len(told) == len(sunk)
    assert stored == Stored(tuple(again.chain), None, tuple(tokens), "", "")
    assert raised == Removed(tuple(again.chain), is_host=True)
    assert cache.held(again, 8) == 8 and not cache.has_below(again.chain[0])


def test_the_host_lets_go_what_was_found_or_put_longest_ago() -> None:
    cache = KvCache(2, BLOCK, host_blocks=2)
    for word in (1, 2, 3, 4):
        cache.close(fill(cache, [word] * BLOCK)[0])
    first, second = (cache.lease([word] * BLOCK) for word in (1, 2))
    assert cache.open(first, 0, BLOCK, BLOCK)
    cache.close(first)
    cache.close(fill(cache, [5] * BLOCK)[0])
    assert cache.has_below(first.chain[0]) and not cache.has_below(second.chain[0])


def test_what_is_being_loaded_stays_whatever_is_evicted_meanwhile() -> None:
    cache = KvCache(2, BLOCK, host_blocks=1, record_events=True)
    for word in (1, 2, 3):
        cache.close(fill(cache, [word] * BLOCK)[0])
    lease = cache.lease([1] * BLOCK)
    cache.drain_events()
    assert cache.open(lease, 0, BLOCK, BLOCK) and cache.has_below(lease.chain[0])
    [gone] = cache.drain_events()
    assert isinstance(gone, Removed) and not gone.is_host, "what finds no room below is told as gone only"
    cache.commit(lease, BLOCK)
    assert cache.held(lease, BLOCK) == BLOCK


def test_a_chain_names_every_block_by_all_before_it() -> None:
    cache = KvCache(4, BLOCK)
    assert cache.lease([1, 2, 3, 4, 5, 6, 7, 8]).chain[1] != cache.lease([0, 2, 3, 4, 5, 6, 7, 8]).chain[1]


def test_without_prefix_caching_nothing_is_found() -> None:
    cache = KvCache(4, BLOCK, host_blocks=4, prefix_caching=False, record_events=True)
    cache.close(fill(cache, list(range(8)))[0])
    assert fill(cache, list(range(8)))[1] == 0 and not cache.drain_events()


def test_events_chain_to_their_parents() -> None:
    cache = KvCache(8, BLOCK, record_events=True)
    lease, _ = fill(cache, list(range(8)))
    fill(cache, list(range(12)))
    first, second = cache.drain_events()
    assert isinstance(first, Stored) and first.parent is None and first.token_ids == tuple(range(8))
    assert isinstance(second, Stored) and second.parent == lease.chain[1]
    assert second.token_ids == (8, 9, 10, 11)
    assert cache.reset() is False


def test_reset_is_told() -> None:
    cache = KvCache(8, BLOCK, record_events=True)
    cache.close(fill(cache, list(range(8)))[0])
    cache.drain_events()
    assert cache.reset() and cache.drain_events() == [Cleared()]
    assert cache.held(cache.lease(list(range(8))), 8) == 0


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), max_size=40))
def test_only_full_blocks_are_named(tokens: list[int]) -> None:
    assert len(KvCache(1, BLOCK).lease(tokens).chain) == len(tokens) // BLOCK
