"""Who is left out and who is tried again: laws of the decision, over histories that would take hours."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleets import outlier
from gateway.fleets.outlier import Reason, Standing, State
from gateway.spec import HealthSpec

SPEC = HealthSpec()
S = 1_000_000_000


@dataclass(eq=False)
class One:
    """An engine as it is judged."""

    up: bool = True
    on_trial: bool = False
    answers: int = 0
    errors: int = 0
    token_ns: int = 0
    standing: Standing = field(default_factory=Standing)


@dataclass
class Stage:
    """A fleet and a clock."""

    engines: list[One]
    spec: HealthSpec = SPEC
    now_ns: int = S
    chance: float = 0.5

    def answer(self, one: One, n: int = 1, *, bad: bool = False) -> None:
        for _ in range(n):
            one.answers += 1
            if bad:
                outlier.erred(one, self.engines, "500", self.spec, self.now_ns, lambda: self.chance)
        outlier.settle(self.engines)

    def time_out(self, one: One, sent_ns: int, life_ns: int = 0) -> None:
        outlier.timed_out(one, self.engines, sent_ns, life_ns, self.spec, self.now_ns, lambda: self.chance)
        outlier.settle(self.engines)

    def miss(self, one: One, n: int = 1) -> None:
        for _ in range(n):
            outlier.missed(one, "refused", Reason.CONNECT, self.spec)
        outlier.settle(self.engines)

    def find(self, one: One) -> None:
        outlier.found(one, self.now_ns)
        outlier.settle(self.engines)

    def wait(self, seconds: float) -> None:
        for _ in range(max(1, int(seconds))):
            self.now_ns += int(seconds * S / max(1, int(seconds)))
            outlier.look(self.engines, self.spec, self.now_ns)
            outlier.settle(self.engines)

    @property
    def up(self) -> list[bool]:
        return [one.up for one in self.engines]


def fleet(n: int = 3, spec: HealthSpec = SPEC) -> Stage:
    return Stage([One() for _ in range(n)], spec)


def test_refused_connections_in_a_row_take_an_engine_out_and_one_good_probe_brings_it_back() -> None:
    stage = fleet()
    bad = stage.engines[0]
    stage.miss(bad, SPEC.failures - 1)
    assert bad.up
    stage.miss(bad)
    assert stage.up == [False, True, True] and bad.standing.state is State.GONE
    stage.wait(3600)
    assert not bad.up  # no time brings back who is not there
    stage.find(bad)
    assert bad.up and bad.standing.state is State.GOOD


def test_an_answer_between_two_refusals_starts_the_row_anew() -> None:
    stage = fleet()
    for _ in range(10):
        stage.miss(stage.engines[0], SPEC.failures - 1)
        stage.answer(stage.engines[0])
    assert stage.engines[0].up


def test_an_answer_brings_back_an_engine_that_was_tried_for_want_of_any_other() -> None:
    stage = fleet(1)
    stage.miss(stage.engines[0], 10)
    assert stage.up == [True]
    assert stage.engines[0].standing.why
    stage.answer(stage.engines[0])
    stage.wait(1)
    assert stage.engines[0].standing.state is State.GOOD


def test_an_engine_that_always_answers_500_is_left_out_after_a_few_answers() -> None:
    stage = fleet()
    stage.answer(stage.engines[1], 20)
    stage.answer(stage.engines[0], SPEC.error_answers - 1, bad=True)
    assert stage.up == [True, True, True]
    stage.answer(stage.engines[0], bad=True)
    assert stage.up == [False, True, True]
    assert stage.engines[0].standing.left_out == {Reason.ERRORS: 1}


def test_it_is_found_out_at_little_traffic_too() -> None:
    stage = fleet()
    for _ in range(SPEC.error_answers):
        stage.answer(stage.engines[0], bad=True)
        stage.answer(stage.engines[1])
        stage.wait(9)
    assert stage.engines[0].standing.left_out == {Reason.ERRORS: 1}


def test_errors_long_past_do_not_count() -> None:
    stage = fleet()
    bad = stage.engines[0]
    stage.answer(bad, SPEC.error_answers - 1, bad=True)
    for _ in range(30):
        stage.answer(bad, 3)
        stage.wait(10)
    stage.answer(bad, 2, bad=True)
    assert bad.up


def test_errors_long_past_do_not_count_at_no_traffic_either() -> None:
    stage = fleet()
    stage.answer(stage.engines[0], SPEC.error_answers - 1, bad=True)
    stage.wait(600)
    stage.answer(stage.engines[0], bad=True)
    assert stage.engines[0].up


def test_a_few_errors_among_many_answers_are_no_reason() -> None:
    stage = fleet()
    for _ in range(100):
        stage.answer(stage.engines[0], 2)
        stage.answer(stage.engines[0], bad=True)
        stage.wait(1)
    assert stage.engines[0].up


def test_what_all_engines_answer_badly_is_the_requests_fault() -> None:
    stage = fleet(6)
    for _ in range(50):
        for one in stage.engines:
            stage.answer(one, bad=True)
        stage.wait(1)
    assert sum(stage.up) >= 5  # the first may have been ahead of the others by a few


def test_a_trial_is_one_request_and_a_good_answer_ends_it() -> None:
    stage = fleet()
    bad = stage.engines[0]
    stage.answer(bad, 10, bad=True)
    stage.wait(SPEC.ejection_s - 1)
    assert not bad.up
    stage.wait(2)
    assert bad.up and bad.on_trial
    outlier.tried(bad)
    outlier.settle(stage.engines)
    assert not bad.up
    stage.answer(bad)
    stage.wait(1)
    assert bad.up and bad.standing.state is State.GOOD


def test_each_trial_that_fails_doubles_the_time_up_to_a_bound_and_time_without_one_halves_it() -> None:
    stage = fleet()
    bad = stage.engines[0]
    stage.answer(bad, 10, bad=True)
    lengths = []
    for _ in range(9):
        lengths.append((bad.standing.until_ns - stage.now_ns) / S)
        while not bad.on_trial:
            stage.wait(1)
        outlier.tried(bad)
        stage.answer(bad, bad=True)
        assert bad.standing.state is State.EJECTED and not bad.up
    assert lengths == [5, 10, 20, 40, 80, 120, 120, 120, 120]
    while not bad.on_trial:
        stage.wait(1)
    stage.answer(bad)
    for _ in range(40 * 120):
        stage.wait(1)
    assert bad.standing.ejections == 0


@given(st.floats(0, 1, exclude_max=True))
def test_ejections_are_jittered_so_that_workers_do_not_try_at_one_moment(chance: float) -> None:
    stage = fleet()
    stage.chance = chance
    stage.answer(stage.engines[0], 10, bad=True)
    length_s = (stage.engines[0].standing.until_ns - stage.now_ns) / S
    assert length_s == pytest.approx(SPEC.ejection_s * (0.75 + 0.5 * chance), abs=1e-6)


def test_a_trial_without_an_answer_yet_is_no_bad_one_and_another_request_may_try() -> None:
    stage = fleet()
    bad = stage.engines[0]
    stage.answer(bad, 10, bad=True)
    stage.wait(SPEC.ejection_s + 1)
    outlier.tried(bad)
    stage.wait(2)
    assert not bad.on_trial
    stage.wait(SPEC.ejection_s + 1)
    assert bad.on_trial and bad.up


def test_requests_without_a_first_token_in_a_row_take_an_engine_out() -> None:
    stage = fleet()
    for _ in range(SPEC.timeouts):
        assert stage.engines[0].up
        stage.time_out(stage.engines[0], sent_ns=stage.now_ns - S)
    assert stage.up == [False, True, True]
    assert stage.engines[0].standing.left_out == {Reason.TIMEOUTS: 1}


@pytest.mark.parametrize("life", ["another's first token", "a running stream"])
def test_slow_is_not_dead(life: str) -> None:
    stage = fleet()
    slow = stage.engines[0]
    for _ in range(20):
        sent_ns = stage.now_ns
        stage.wait(600)
        if life == "another's first token":
            slow.token_ns = stage.now_ns - 1
        stage.time_out(slow, sent_ns, 0 if life == "another's first token" else stage.now_ns - 1)
    assert slow.up


def test_many_that_wait_together_and_time_out_together_are_no_row_when_one_was_served_meanwhile() -> None:
    stage = fleet()
    stage.wait(600)
    stage.engines[0].token_ns = stage.now_ns - 300 * S
    for _ in range(50):
        stage.time_out(stage.engines[0], sent_ns=stage.now_ns - 600 * S)
    assert stage.engines[0].up


def test_a_token_between_two_timeouts_starts_the_row_anew() -> None:
    stage = fleet()
    for _ in range(10):
        sent_ns = stage.now_ns
        stage.wait(600)
        stage.time_out(stage.engines[0], sent_ns)
        stage.engines[0].token_ns = stage.now_ns + 1
        stage.wait(1)
    assert stage.engines[0].up


def test_the_last_good_engine_is_never_ejected_nor_more_than_a_share() -> None:
    for n, most in ((1, 0), (2, 1), (3, 1), (4, 2), (10, 5)):
        stage = fleet(n)
        for one in stage.engines:
            stage.answer(one, 200)
        stage.wait(6)
        stage.wait(6)
        for one in stage.engines:
            stage.answer(one, 1000, bad=True)
        assert sum(one.standing.state is State.EJECTED for one in stage.engines) <= most
    stage = fleet(4, HealthSpec(ejected_share=0))
    stage.answer(stage.engines[0], 100, bad=True)
    assert all(stage.up)


def test_where_none_is_good_those_that_are_there_are_tried_and_then_all_that_were_ever() -> None:
    stage = fleet(3)
    stage.engines.append(One(up=False, standing=Standing(State.NEW)))
    ejected, *gone, new = stage.engines
    stage.answer(ejected, 100, bad=True)
    assert not ejected.up
    for one in gone:
        stage.miss(one, 10)
    assert stage.up == [True, False, False, False]
    stage.miss(ejected, 10)
    assert stage.up == [True, True, True, False]
    stage.find(new)
    assert stage.up == [False, False, False, True]


def test_an_engine_that_was_restarted_has_nothing_held_against_it() -> None:
    stage = fleet()
    bad = stage.engines[0]
    stage.answer(bad, 100, bad=True)
    stage.find(bad)
    assert not bad.up  # that its probes are good was so before
    stage.miss(bad, 10)
    stage.find(bad)
    assert bad.up and bad.standing.ejections == 0


def test_a_new_engine_is_used_after_its_first_good_probe_and_is_not_lost_before_it() -> None:
    stage = fleet(1)
    new = One(up=False, standing=Standing(State.NEW))
    stage.engines.append(new)
    stage.miss(new, 20)
    stage.wait(60)
    assert not new.up and new.standing.left_out == {}
    stage.find(new)
    assert new.up


events = st.tuples(
    st.sampled_from(["good", "bad", "miss", "find", "out", "wait", "tried"]), st.integers(0, 3)
)


@given(st.lists(events, max_size=150), st.integers(1, 4))
def test_whatever_happens_a_fleet_is_never_left_out_as_a_whole(story: list[tuple[str, int]], n: int) -> None:
    stage = fleet(n)
    for what, which in story:
        one = stage.engines[which % n]
        if what == "good":
            stage.answer(one)
        elif what == "bad":
            stage.answer(one, 3, bad=True)
        elif what == "miss":
            stage.miss(one, 2)
        elif what == "find":
            stage.find(one)
        elif what == "out":
            stage.time_out(one, stage.now_ns - 1)
        elif what == "wait":
            stage.wait(3)
        elif one.on_trial:
            outlier.tried(one)
            outlier.settle(stage.engines)
        assert any(stage.up)
        good = [one for one in stage.engines if one.standing.state is State.GOOD]
        assert all(one.up for one in good)
        if n > 1:
            ejected = [one for one in stage.engines if one.standing.state in (State.EJECTED, State.TRIAL)]
            assert len(ejected) <= max(1, n // 2)
    for one in stage.engines:
        stage.find(one)
    for _ in range(40):  # a fleet whose engines answer well is whole again
        for one in stage.engines:
            if one.up:
                if one.on_trial:
                    outlier.tried(one)
                stage.answer(one)
        stage.wait(10)
    assert all(one.standing.state is State.GOOD for one in stage.engines)
