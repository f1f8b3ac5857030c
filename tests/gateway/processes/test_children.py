"""What becomes of the children: restarts that back off, an end in order, in bounded time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.processes.children import FIRST_DELAY_S, MOST_DELAY_S, Child, Order, Roster, Stage, next_delay_s

SECOND = 1_000_000_000
WORKER = Child("worker-0", Stage.WORKER, ("w",), grace_s=30.0)
OTHER = Child("worker-1", Stage.WORKER, ("w",), grace_s=30.0)
SHADOW = Child("shadow", Stage.SHADOW, ("s",), grace_s=5.0)
ANALYSIS = Child("analysis", Stage.ANALYSIS, ("a",), grace_s=5.0)
ALL = (WORKER, OTHER, SHADOW, ANALYSIS)


def running() -> Roster:
    roster = Roster(ALL)
    for child in roster.due(0):
        roster.started(child.name, 0)
    return roster


def test_analysis_starts_first_and_workers_last() -> None:
    assert [child.stage for child in Roster(ALL).due(0)] == [3, 1, 0, 0]


def test_two_children_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="one name"):
        Roster([WORKER, WORKER])


def test_the_wait_doubles_up_to_ten_seconds_and_is_forgiven_after_thirty() -> None:
    waits: list[float] = []
    for _ in range(8):
        waits.append(next_delay_s(waits[-1] if waits else None, lived_s=0.1))
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert next_delay_s(10.0, lived_s=30.0) == FIRST_DELAY_S


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30))
def test_every_dead_child_is_started_again_within_ten_seconds_and_not_before_its_time(
    lives_s: list[float],
) -> None:
    roster, now = running(), 0
    for lived_s in lives_s:
        now += round(lived_s * SECOND)
        delay_s = roster.died("worker-0", now)
        assert delay_s is not None
        assert FIRST_DELAY_S <= delay_s <= MOST_DELAY_S
        assert roster.due(now) == []
        wake_s = roster.wake_in_s(now)
        assert wake_s == pytest.approx(delay_s)
        now += round(delay_s * SECOND)
        assert roster.due(now) == [WORKER]
        roster.started("worker-0", now)


def test_a_child_that_cannot_be_started_backs_off_too() -> None:
    roster = Roster([WORKER])
    assert [roster.died("worker-0", 0) for _ in range(3)] == [0.2, 0.4, 0.8]


def test_the_end_comes_workers_first_then_shadow_then_analysis() -> None:
    roster = running()
    roster.drain(0)
    assert roster.orders(0) == [(WORKER, Order.FINISH), (OTHER, Order.FINISH)]
    roster.died("worker-0", 1)
    assert roster.orders(1) == []
    roster.died("worker-1", 2)
    assert roster.orders(2) == [(SHADOW, Order.FINISH)]
    roster.died("shadow", 3)
    assert roster.orders(3) == [(ANALYSIS, Order.FINISH)]
    assert not roster.ended
    roster.died("analysis", 4)
    assert roster.ended
    assert roster.killed == []


def test_who_does_not_finish_in_time_is_killed_once() -> None:
    roster = running()
    roster.drain(0)
    roster.orders(0)
    assert roster.wake_in_s(0) == pytest.approx(30.0)
    assert roster.orders(30 * SECOND - 1) == []
    assert roster.orders(30 * SECOND) == [(WORKER, Order.KILL), (OTHER, Order.KILL)]
    assert roster.orders(40 * SECOND) == []
    assert roster.wake_in_s(40 * SECOND) is None


def test_a_second_signal_ends_all_at_once_within_a_second() -> None:
    roster = running()
    roster.drain(0)
    roster.orders(0)
    roster.drain(2 * SECOND)
    assert roster.orders(2 * SECOND) == [(ANALYSIS, Order.FINISH), (SHADOW, Order.FINISH)]
    assert roster.orders(3 * SECOND) == [(child, Order.KILL) for child in (ANALYSIS, SHADOW, WORKER, OTHER)]


def test_a_child_waiting_for_its_restart_does_not_hold_up_the_end() -> None:
    roster = running()
    roster.died("worker-0", 0)
    roster.died("worker-1", 0)
    roster.drain(1)
    assert roster.orders(1) == [(SHADOW, Order.FINISH)]
    assert roster.due(100 * SECOND) == []


STEPS = st.lists(
    st.tuples(st.sampled_from(["dies", "waits", "drain"]), st.sampled_from(ALL), st.integers(0, 40)),
    max_size=40,
)


@given(STEPS)
def test_whatever_happens_an_end_asked_for_comes(steps: list[tuple[str, Child, int]]) -> None:
    """The shell's loop, with children that only die when killed or by the steps."""
    roster, alive, told, now = Roster(ALL), set[str](), set[str](), 0
    ending = [("drain", WORKER, 0), *[("waits", WORKER, 40)] * 8]
    for what, child, seconds in [*steps, *ending]:
        now += seconds * SECOND
        if what == "drain":
            roster.drain(now)
        elif what == "dies" and child.name in alive:
            alive.remove(child.name)
            told.discard(child.name)
            assert (roster.died(child.name, now) is None) == roster.draining
        for due in roster.due(now):
            assert not roster.draining
            assert due.name not in alive
            alive.add(due.name)
            roster.started(due.name, now)
        for ordered, order in roster.orders(now):
            assert ordered.name in alive
            if order is Order.FINISH:
                assert ordered.name not in told
                told.add(ordered.name)
            else:
                assert ordered.name in told
                alive.remove(ordered.name)
                roster.died(ordered.name, now)
    for _ in range(len(ALL)):
        for ordered, order in roster.orders(now):
            if order is Order.KILL:
                alive.remove(ordered.name)
                roster.died(ordered.name, now)
        now += 100 * SECOND
    for ordered, _order in roster.orders(now):
        alive.discard(ordered.name)
        roster.died(ordered.name, now)
    assert roster.ended
    assert not alive
