"""The books: whatever order things come in, every copy ends paired or dropped, exactly once."""

from collections import Counter
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mirror.pair import Joiner

ARMS = [("control", 0), ("control", 1), ("fp8", 0), ("fp8", 1)]


def answer(arm: str, twin: int, order: int = 0, size: int = 3) -> dict[str, Any]:
    return {"arm": arm, "twin": twin, "order": order, "reads": [(1, b"x" * size)], "ending": "complete"}


class Interleavings(RuleBasedStateMachine):
    """Deliveries, losses, duplicates, timeouts and unknown ids, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[dict[str, Any]] = []
        self.full = False
        self.now = 0
        self.admitted = 0
        self.dropped: Counter[str] = Counter()
        self.joiner = Joiner("e", self.deliver, patience_ns=50, deadline_ns=200)

    def deliver(self, pair: dict[str, Any]) -> str | None:
        if self.full:
            return "analysis_down"
        self.pairs.append(pair)
        return None

    ids = st.integers(0, 6).map(str)

    @rule(id=ids, arms=st.integers(1, 4), size=st.integers(0, 9))
    def open(self, id: str, arms: int, size: int) -> None:
        fresh = not self.joiner.is_open(id)
        assert self.joiner.open(id, {"at_ns": self.now}, ARMS[:arms], size, self.now) is fresh
        self.admitted += 1

    @rule(reason=st.sampled_from(["overload", "lane_full"]), n=st.integers(0, 3))
    def drop(self, reason: str, n: int) -> None:
        self.joiner.drop(reason, n)
        self.admitted += n

    @rule(
        id=ids, arm=st.sampled_from([*ARMS, ("stranger", 0)]), order=st.integers(0, 3), size=st.integers(0, 9)
    )
    def answered(self, id: str, arm: tuple[str, int], order: int, size: int) -> None:
        self.joiner.answered(id, answer(*arm, order, size), self.now)

    @rule(id=ids)
    def served(self, id: str) -> None:
        self.joiner.served(id, answer("production", 0))

    @rule(by=st.integers(0, 120))
    def time_passes(self, by: int) -> None:
        self.now += by
        self.joiner.expire(self.now)

    @rule(full=st.booleans())
    def analysis_comes_and_goes(self, full: bool) -> None:
        self.full = full

    @precondition(lambda self: self.admitted > 5)
    @rule()
    def close(self) -> None:
        self.joiner.close()
        books = self.joiner.books()
        assert books["open"] == 0
        assert books["admitted"] == books["paired"] + sum(books["dropped"].values())
        assert self.joiner.held_bytes == 0 and self.joiner.inflight == 0

    @invariant()
    def the_books_account_for_every_copy(self) -> None:
        books = self.joiner.books()
        assert books["admitted"] == self.admitted
        assert books["admitted"] == books["paired"] + sum(books["dropped"].values()) + books["open"]
        assert books["paired"] == len(self.pairs)
        assert 0 <= self.joiner.inflight <= books["open"]
        assert self.joiner.held_bytes >= 0

    @invariant()
    def a_pair_has_one_answer_of_every_arm_it_was_sent_to(self) -> None:
        for pair in self.pairs:
            keys = [(each["arm"], each["twin"]) for each in pair["answers"]]
            assert len(set(keys)) == len(keys) and set(keys) == set(ARMS[: len(keys)])
            orders = [each["order"] for each in pair["answers"]]
            assert orders == sorted(orders)


TestInterleavings = Interleavings.TestCase


@given(st.randoms(use_true_random=False), st.integers(1, 30))
def test_answers_in_any_order_give_the_same_pairs(rng: Random, n: int) -> None:
    pairs: list[dict[str, Any]] = []
    joiner = Joiner("e", lambda pair: pairs.append(pair), patience_ns=10, deadline_ns=100)
    events: list[tuple[int, dict[str, Any]]] = []
    for k in range(n):
        joiner.open(str(k), {"at_ns": k}, ARMS, 1, 0)
        events += [(k, answer(arm, twin, order)) for order, (arm, twin) in enumerate(ARMS)]
        events.append((k, answer("production", 0)))
    rng.shuffle(events)
    for k, what in events:
        if what["arm"] == "production":
            joiner.served(str(k), what)
        else:
            joiner.answered(str(k), what, 5)
    assert sorted(pair["at_ns"] for pair in pairs) == list(range(n))
    assert all(len(pair["answers"]) == 4 and pair["production"] is not None for pair in pairs)
    assert joiner.books()["paired"] == n and joiner.held_bytes == 0


def test_a_pair_goes_without_production_after_its_patience_and_not_before() -> None:
    pairs: list[dict[str, Any]] = []
    joiner = Joiner("e", lambda pair: pairs.append(pair), patience_ns=10, deadline_ns=100)
    joiner.open("a", {}, [("control", 0)], 1, 0)
    joiner.answered("a", answer("control", 0), 50)
    joiner.expire(59)
    assert pairs == []
    joiner.expire(60)
    assert pairs[0]["production"] is None
    assert joiner.books() == {"experiment": "e", "admitted": 1, "paired": 1, "dropped": {}, "open": 0}


Pairs = list[dict[str, Any]]


def silent(waits_for: set[tuple[str, int]], later: tuple[str, int] | None = None) -> tuple[Joiner, Pairs]:
    """A joiner in which of both arms these never answered, until the copy's time was over."""
    pairs: Pairs = []
    joiner = Joiner("e", lambda pair: pairs.append(pair), patience_ns=10, deadline_ns=100)
    arms = [key for key in (("fp8", 0), ("control", 0)) if key != later]
    joiner.open("a", {"at_ns": 7}, arms, 9, 7, later=later)
    for order, key in enumerate(arms):
        if key not in waits_for:
            joiner.answered("a", answer(*key, order), 50)
    joiner.served("a", answer("production", 0))
    joiner.expire(106)
    assert pairs == [] or not waits_for
    joiner.expire(107)
    return joiner, pairs


def test_an_arm_that_never_answers_has_failed_and_its_copy_is_a_pair() -> None:
    joiner, pairs = silent({("fp8", 0)})
    (pair,) = pairs
    first, second = pair["answers"]
    assert (first["arm"], first["ending"], first["status"]) == ("fp8", "unanswered", None)
    assert (first["sent_ns"], first["end_ns"], first["reads"]) == (7, 107, [])
    assert (second["arm"], second["ending"]) == ("control", "complete")
    assert joiner.books()["dropped"] == {} and joiner.held_bytes == joiner.inflight == 0
    joiner.answered("a", answer("fp8", 0), 200)
    assert joiner.strays == 1 and len(pairs) == 1


def test_a_control_that_never_answers_has_failed_alike() -> None:
    _, pairs = silent({("control", 0)})
    assert {each["arm"]: each["ending"] for each in pairs[0]["answers"]} == {
        "fp8": "complete",
        "control": "unanswered",
    }


def test_where_nobody_answers_both_have_failed_which_says_nothing_of_either() -> None:
    _, pairs = silent({("control", 0), ("fp8", 0)})
    assert {each["ending"] for each in pairs[0]["answers"]} == {"unanswered"}


def test_what_an_arm_was_never_asked_is_no_fault_of_it_and_the_copy_is_dropped() -> None:
    joiner, pairs = silent({("fp8", 0)}, later=("fp8", 0))
    assert pairs == [] and joiner.books()["dropped"] == {"unsent": 1}


def test_what_an_arm_was_asked_in_its_turn_and_never_answered_is_a_fault_of_it() -> None:
    pairs: Pairs = []
    joiner = Joiner("e", lambda pair: pairs.append(pair), patience_ns=10, deadline_ns=100)
    joiner.open("a", {}, [("control", 0)], 1, 0, alone=True, later=("fp8", 0))
    joiner.answered("a", answer("control", 0), 50)
    joiner.asked("a", ("fp8", 0), 60)
    joiner.expire(100)
    assert [(a["arm"], a["ending"], a["order"]) for a in pairs[0]["answers"]] == [
        ("control", "complete", 0),
        ("fp8", "unanswered", 1),
    ]
    assert pairs[0]["answers"][1]["sent_ns"] == 60
