"""What holds of the memory of beginnings."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from routing.index import MIN_ENTRY_BYTES, PrefixIndex

Path = tuple[int, ...]
paths = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple)


def chained(path: Path, step: int = 100) -> tuple[list[int], list[int]]:
    """A chain whose links depend on all that came before, as hashes do."""
    return [hash(path[: n + 1]) for n in range(len(path))], [step * (n + 1) for n in range(len(path))]


class Recorded(RuleBasedStateMachine):
    """An index of 3 engines of 1,000 bytes against everything that was ever recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.index = PrefixIndex(capacity_bytes=1000, max_age_s=50.0)
        self.seen: dict[int, set[int]] = {}
        self.now_s = 0.0

    @rule(engine=st.integers(0, 2), path=paths, passed_s=st.sampled_from([0.0, 1.0, 60.0]))
    def record(self, engine: int, path: Path, passed_s: float) -> None:
        chain, ends = chained(path)
        self.now_s += passed_s
        self.index.record(engine, chain, ends, self.now_s)
        self.seen.setdefault(engine, set()).update(chain)
        assert self.index.match(chain, ends)[engine] == ends[-1], "what was just recorded is known whole"

    @rule(engine=st.integers(0, 2))
    def forget(self, engine: int) -> None:
        self.index.forget(engine)
        self.seen.pop(engine, None)

    @rule(engine=st.integers(0, 2), capacity=st.integers(600, 1500))
    def resize(self, engine: int, capacity: int) -> None:
        self.index.set_capacity(engine, capacity)

    @rule(engine=st.integers(0, 2), path=paths)
    def release(self, engine: int, path: Path) -> None:
        self.index.release(engine, chained(path)[0])

    @rule(path=paths)
    def match_claims_no_more_than_was_recorded(self, path: Path) -> None:
        chain, ends = chained(path)
        for engine, held in self.index.match(chain, ends).items():
            assert set(chain[: ends.index(held) + 1]) <= self.seen.get(engine, set())

    @rule(path=paths)
    def a_longer_beginning_is_held_only_with_the_shorter(self, path: Path) -> None:
        chain, ends = chained(path)
        whole = self.index.match(chain, ends)
        for n in range(1, len(chain)):
            short = self.index.match(chain[:n], ends[:n])
            assert short == {engine: min(held, ends[n - 1]) for engine, held in whole.items()}

    @invariant()
    def is_bounded(self) -> None:
        for engine in range(3):
            assert 0 <= self.index.used_bytes(engine) <= self.index.held_bytes(engine) <= 1500
            assert self.index.entries(engine) <= 1500 // MIN_ENTRY_BYTES


TestRecorded = Recorded.TestCase


class LinkByLink:
    """One engine's memory as one would write it first: each link stamped, from the end to the start."""

    def __init__(self, capacity_bytes: int, max_age_s: float) -> None:
        self.capacity_bytes = capacity_bytes
        self.max_age_s = max_age_s
        self.stamps: OrderedDict[int, float] = OrderedDict()

    def record(self, chain: list[int], now_s: float) -> None:
        for link in reversed(chain[: self.capacity_bytes // 100]):
            self.stamps[link] = now_s
            self.stamps.move_to_end(link)
        while self.stamps and next(iter(self.stamps.values())) < now_s - self.max_age_s:
            self.stamps.popitem(last=False)
        self.shrink()

    def shrink(self) -> None:
        while 100 * len(self.stamps) > self.capacity_bytes:
            self.stamps.popitem(last=False)


class StampedByRuns(RuleBasedStateMachine):
    """Stamping where a prompt ends, and nowhere else, evicts the same links in the same order."""

    def __init__(self) -> None:
        super().__init__()
        self.index = PrefixIndex(capacity_bytes=1000, max_age_s=50.0)
        self.models = [LinkByLink(1000, 50.0) for _ in range(2)]
        self.paths: set[Path] = set()
        self.now_s = 0.0

    @rule(engine=st.integers(0, 1), path=paths, passed_s=st.sampled_from([0.0, 1.0, 20.0, 60.0]))
    def record(self, engine: int, path: Path, passed_s: float) -> None:
        self.paths.add(path)
        self.now_s += passed_s
        self.index.record(engine, *chained(path), self.now_s)
        self.models[engine].record(chained(path)[0], self.now_s)

    @rule(engine=st.integers(0, 1), path=paths)
    def confirm(self, engine: int, path: Path) -> None:
        self.index.confirm(engine, chained(path)[0])

    @rule(engine=st.integers(0, 1))
    def forget(self, engine: int) -> None:
        self.index.forget(engine)
        self.models[engine].stamps.clear()

    @rule(engine=st.integers(0, 1), links=st.integers(3, 12))
    def resize(self, engine: int, links: int) -> None:
        self.index.set_capacity(engine, 100 * links)
        self.models[engine].capacity_bytes = 100 * links
        self.models[engine].shrink()

    @invariant()
    def holds_the_same(self) -> None:
        for engine, model in enumerate(self.models):
            assert self.index.entries(engine) == len(model.stamps)
            assert self.index.held_bytes(engine) == 100 * len(model.stamps)
        for path in self.paths:
            chain, ends = chained(path)
            held = self.index.match(chain, ends)
            for engine, model in enumerate(self.models):
                assert held.get(engine, 0) == 100 * sum(link in model.stamps for link in chain)


TestStampedByRuns = StampedByRuns.TestCase


class Refused(RuleBasedStateMachine):
    """What requests were sent and refused against what is left when those are taken as never sent."""

    def __init__(self) -> None:
        super().__init__()
        self.index = PrefixIndex()
        self.sent: list[Path] = []
        self.running: list[Path] = []  # answered, and not ended
        self.answered: set[Path] = set()

    @rule(path=paths)
    def send(self, path: Path) -> None:
        self.index.record(0, *chained(path), 0.0)
        self.sent.append(path)

    @rule(which=st.integers(0, 20))
    def refuse(self, which: int) -> None:
        if which < len(self.sent):
            chain = chained(self.sent.pop(which))[0]
            self.index.release(0, chain)
            self.index.retract(0, chain)

    @rule(which=st.integers(0, 20))
    def answer(self, which: int) -> None:
        if which < len(self.sent):
            path = self.sent.pop(which)
            self.index.confirm(0, chained(path)[0])
            self.running.append(path)
            self.answered.add(path)

    @rule(which=st.integers(0, 20))
    def end(self, which: int) -> None:
        if which < len(self.running):
            self.index.release(0, chained(self.running.pop(which))[0])

    @invariant()
    def counts_what_is_in_flight_once(self) -> None:
        used = {path[:n] for path in (*self.sent, *self.running) for n in range(1, len(path) + 1)}
        assert self.index.used_bytes(0) == 100 * len(used)

    @invariant()
    def holds_what_was_answered_or_is_awaited(self) -> None:
        held = {path[:n] for path in (*self.sent, *self.answered) for n in range(1, len(path) + 1)}
        assert self.index.entries(0) == len(held)
        for path in held:
            assert self.index.match(*chained(path)) == {0: 100 * len(path)}


TestRefused = Refused.TestCase


def test_the_longest_unused_goes_first_and_tails_before_heads() -> None:
    index = PrefixIndex(capacity_bytes=500)
    old, new, ends = [1, 2, 3], [1, 4, 5], [100, 200, 300]
    index.record(0, old, ends, 0.0)
    index.record(0, new, ends, 1.0)
    assert index.match(old, ends) == {0: 300}
    index.record(0, [6], [100], 2.0)
    assert index.match(old, ends) == {0: 200}
    assert index.match(new, ends) == {0: 300}
    index.record(0, [7, 8, 9], ends, 3.0)
    assert index.match(old, ends) == index.match(new, ends) == {0: 100}


def test_engines_are_remembered_apart() -> None:
    index = PrefixIndex()
    index.record(0, [1, 2], [10, 20], 0.0)
    index.record(1, [1], [10], 0.0)
    assert index.match([1, 2], [10, 20]) == {0: 20, 1: 10}
    index.forget(0)
    assert index.match([1, 2], [10, 20]) == {1: 10}
    assert index.match([], []) == {}


def test_what_was_not_used_for_long_is_forgotten() -> None:
    index = PrefixIndex(max_age_s=10.0)
    index.record(0, [1, 2], [10, 20], 0.0)
    index.record(0, [1], [10], 8.0)
    index.record(0, [5], [10], 12.0)
    assert index.match([1, 2], [10, 20]) == {0: 10}


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=300))
def test_one_prompt_larger_than_the_engine_keeps_its_beginning(steps: Sequence[int]) -> None:
    index, ends = PrefixIndex(capacity_bytes=5000), list(accumulate(steps))
    chain = list(range(len(ends)))
    index.record(0, chain, ends, 0.0)
    assert index.held_bytes(0) <= 5000
    held = index.match(chain, ends).get(0, 0)
    assert held in (0, *ends) and held <= 5000
    if steps[0] <= 5000:
        assert held >= ends[0]


@pytest.mark.parametrize("capacity", [0, 63])
def test_an_engine_without_a_cache_holds_nothing(capacity: int) -> None:
    index = PrefixIndex()
    index.set_capacity(0, capacity)
    index.record(0, [1, 2], [10, 20], 0.0)
    assert index.match([1, 2], [10, 20]) == {}
    index.forget(0)
    index.record(0, [1, 2], [10, 20], 1.0)
    assert index.match([1, 2], [10, 20]) == {}, "forgetting what an engine holds keeps its capacity"
