"""What holds of the memory of beginnings."""

from collections import Counter, OrderedDict
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


def beginnings(path: Path) -> list[Path]:
    """The longest first."""
    return [path[:n] for n in range(len(path), 0, -1)]


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

    @rule(engine=st.integers(0, 2), path=paths, size=st.integers(1, 2000))
    def answer(self, engine: int, path: Path, size: int) -> None:
        self.index.answer(engine, chained(path)[0], size)

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

    @rule(path=paths, known=st.dictionaries(st.integers(0, 3), st.integers(0, 700), max_size=3))
    def what_is_known_counts_and_what_was_sent_beyond_it_breaks_ties(
        self, path: Path, known: dict[int, int]
    ) -> None:
        chain, ends = chained(path)
        believed = self.index.match(chain, ends)
        tied = {engine: held + (believed.get(engine, 0) > held) for engine, held in known.items()}
        assert self.index.beyond(chain, ends, known) == {**believed, **tied}
        assert believed == {n: held for n in range(3) if (held := self.index.held(n, chain, ends))}

    @invariant()
    def is_bounded(self) -> None:
        for engine in range(3):
            assert 0 <= self.index.used_bytes(engine) <= self.index.held_bytes(engine) <= 1500
            assert self.index.entries(engine) <= 1500 // MIN_ENTRY_BYTES


TestRecorded = Recorded.TestCase


class LinkByLink:
    """One engine's memory as one would write it first: each beginning stamped, from the end to the start."""

    def __init__(self, capacity: int, max_age_s: float) -> None:
        self.capacity = capacity  # links
        self.max_age_s = max_age_s
        self.told_s = 0.0
        self.idle: OrderedDict[Path, float] = OrderedDict()
        self.users: Counter[Path] = Counter()
        self.answers: Counter[Path] = Counter()

    def record(self, path: Path, now_s: float) -> None:
        self.told_s = now_s
        for one in beginnings(path[: self.capacity]):
            if one != path:
                self.answers.pop(one, None)  # it is a part of what continues
            if len(path) <= self.capacity:
                self.users[one] += 1
                self.idle.pop(one, None)
            elif not self.users[one]:
                self.stamp(one)
        while self.idle and next(iter(self.idle.values())) < now_s - self.max_age_s:
            self.answers.pop(self.idle.popitem(last=False)[0], None)
        self.shrink()

    def release(self, path: Path) -> None:
        for one in beginnings(path):
            self.users[one] -= 1
            if not self.users[one]:
                self.stamp(one)

    def answer(self, path: Path, links: int) -> None:
        continued = any(len(one) > len(path) and one[: len(path)] == path for one in self.held)
        if path in self.held and not continued:
            self.answers[path] = links
            self.shrink()

    def stamp(self, path: Path) -> None:
        self.idle[path] = self.told_s
        self.idle.move_to_end(path)

    def shrink(self) -> None:
        while self.size > self.capacity:
            oldest = next(iter(self.idle))
            if self.answers[oldest]:
                self.answers[oldest] -= 1
            else:
                del self.idle[oldest]

    @property
    def held(self) -> set[Path]:
        return {*self.idle, *(+self.users)}

    @property
    def in_use(self) -> int:
        return len(+self.users) + sum(number for path, number in self.answers.items() if self.users[path])

    @property
    def size(self) -> int:
        return len(self.held) + self.answers.total()


class StampedByRuns(RuleBasedStateMachine):
    """Stamping where a prompt ends, and nowhere else, evicts the same links in the same order.

    As long as what is in flight fits at all, as it does in an engine's cache.
    """

    def __init__(self) -> None:
        super().__init__()
        self.index = PrefixIndex(capacity_bytes=1000, max_age_s=50.0)
        self.models = [LinkByLink(10, 50.0) for _ in range(2)]
        self.running: list[tuple[int, Path]] = []
        self.paths: set[Path] = set()
        self.now_s = 0.0

    @rule(
        engine=st.integers(0, 1),
        path=paths,
        passed_s=st.sampled_from([0.0, 1.0, 20.0, 60.0]),
        answer=st.integers(0, 3),
    )
    def record(self, engine: int, path: Path, passed_s: float, answer: int) -> None:
        model = self.models[engine]
        if model.in_use + len(path) + answer > model.capacity >= len(path):
            return
        self.paths.add(path)
        self.now_s += passed_s
        self.index.record(engine, *chained(path), self.now_s)
        model.record(path, self.now_s)
        if len(path) <= model.capacity:
            self.running.append((engine, path))
            self.index.answer(engine, chained(path)[0], 100 * answer)
            model.answer(path, answer)

    @rule(which=st.integers(0, 9), answer=st.integers(0, 3))
    def end(self, which: int, answer: int) -> None:
        if which < len(self.running):
            engine, path = self.running.pop(which)
            self.index.release(engine, chained(path)[0])
            self.models[engine].release(path)
            if not self.models[engine].users[path]:
                self.index.answer(engine, chained(path)[0], 100 * answer)
                self.models[engine].answer(path, answer)

    @rule(engine=st.integers(0, 1), path=paths)
    def confirm(self, engine: int, path: Path) -> None:
        self.index.confirm(engine, chained(path)[0])

    @rule(engine=st.integers(0, 1))
    def forget(self, engine: int) -> None:
        self.index.forget(engine)
        self.models[engine] = LinkByLink(self.models[engine].capacity, 50.0)
        self.running = [one for one in self.running if one[0] != engine]

    @rule(engine=st.integers(0, 1), links=st.integers(3, 12))
    def resize(self, engine: int, links: int) -> None:
        links = max(links, self.models[engine].in_use)
        self.index.set_capacity(engine, 100 * links)
        self.models[engine].capacity = links
        self.models[engine].shrink()

    @invariant()
    def holds_the_same(self) -> None:
        for engine, model in enumerate(self.models):
            assert self.index.entries(engine) == len(model.held)
            assert self.index.held_bytes(engine) == 100 * model.size
        for path in self.paths:
            chain, ends = chained(path)
            held = self.index.match(chain, ends)
            for engine, model in enumerate(self.models):
                assert held.get(engine, 0) == 100 * sum(one in model.held for one in beginnings(path))


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

    @rule(path=paths)
    def ask_what_of_a_prompt_is_in_flight(self, path: Path) -> None:
        used = {one[:n] for one in (*self.sent, *self.running) for n in range(1, len(one) + 1)}
        longest = next((len(one) for one in beginnings(path) if one in used), 0)
        assert self.index.in_use(0, *chained(path)) == 100 * longest
        assert self.index.in_use(1, *chained(path)) == 0

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
    for chain, ends, at_s in (([1, 2], [10, 20], 0.0), ([1], [10], 8.0), ([5], [10], 12.0)):
        index.record(0, chain, ends, at_s)
        index.release(0, chain)
    assert index.match([1, 2], [10, 20]) == {0: 10}


def test_what_is_in_flight_outlasts_what_is_not() -> None:
    index = PrefixIndex(capacity_bytes=500)
    index.record(0, [1, 2], [100, 200], 0.0)
    for link in range(10, 20):
        index.record(0, [link], [200], 1.0)
        index.release(0, [link])
    assert index.match([1, 2], [100, 200]) == {0: 200}
    index.release(0, [1, 2])
    index.record(0, [3], [400], 2.0)
    assert index.match([1, 2], [100, 200]) == {0: 100}, "when it has ended it is the newest, and can go"


def test_more_in_flight_than_fits_is_forgotten_oldest_first() -> None:
    index = PrefixIndex(capacity_bytes=500)
    for link in range(10):
        index.record(0, [link], [200], 0.0)
    assert [link for link in range(10) if index.match([link], [200])] == [8, 9]


def test_answers_take_room_until_a_prompt_holds_them() -> None:
    index = PrefixIndex(capacity_bytes=1000)
    index.record(0, [1], [300], 0.0)
    index.release(0, [1])
    index.answer(0, [1], 500)
    assert index.held_bytes(0) == 800 and index.match([1], [300]) == {0: 300}
    index.record(0, [1, 2], [300, 900], 1.0)
    assert index.held_bytes(0) == 900, "what was answered is now a part of the prompt"


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


@pytest.mark.parametrize("is_refused", [False, True])
def test_what_a_refused_continuation_stood_on_is_as_old_as_before(is_refused: bool) -> None:
    index = PrefixIndex(capacity_bytes=300)

    def sent(path: Path, at_s: float) -> None:
        index.record(0, *chained(path), at_s)
        if len(path) == 1:
            index.confirm(0, chained(path)[0])
            index.release(0, chained(path)[0])

    sent((1,), 1.0)
    sent((2,), 2.0)
    sent((1, 1), 3.0)
    sent((3,), 4.0)  # there is no room for the second, and the first has something that continues it
    index.release(0, chained((1, 1))[0])
    if is_refused:
        index.retract(0, chained((1, 1))[0])
    else:
        index.confirm(0, chained((1, 1))[0])
    sent((4,), 5.0)
    sent((5,), 6.0)
    held = [path for path in ((1,), (1, 1), (2,), (3,), (4,), (5,)) if index.held(0, *chained(path))]
    assert [path for path in held if index.held(0, *chained(path)) == 100 * len(path)] == (
        [(3,), (4,), (5,)] if is_refused else [(1,), (4,), (5,)]
    )
