"""Who is paused, why and until when; and when a brake says that an experiment should be."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.brakes import (
    ARM_ERRORS,
    BRAKES,
    ERRORS,
    LANE,
    LATENCY,
    MEMORY,
    ArmBrake,
    BrakeSpec,
    LaneBrake,
    ProductionBrake,
    Reading,
    Trip,
    hold_s,
    memory_trip,
)
from mirror.switch import BY_HAND, CONFIG, Setting, Switch

S = 1_000_000_000
NEVER_NS = 10**30
TRIP = Trip(ERRORS, "all failed", "mend it")

asked = st.one_of(
    st.tuples(st.sampled_from(["pause", "resume", "trip", "configured", "let go"]), st.sampled_from("ab")),
    st.tuples(st.just("wait"), st.integers(1, 500)),
)


@given(st.lists(asked, max_size=40))
def test_it_is_paused_exactly_while_a_hand_the_configuration_or_a_brake_holds_it(
    some: list[tuple[str, str | int]],
) -> None:
    spec = BrakeSpec(hold_s=60, most_hold_s=240)
    flags, hand, held = {"a": False, "b": False}, set[str](), dict[str, int]()
    board, now_ns = Switch({"a": Setting(), "b": Setting()}), 0

    def configure() -> None:
        board.configure({name: Setting(flag, spec) for name, flag in flags.items()}, now_ns)

    configure()
    for what, which in some:
        name = str(which)
        if what == "pause":
            board.pause(name, now_ns)
            hand.add(name)
        elif what == "resume":
            board.resume(name, now_ns)
            hand.discard(name)
            held.pop(name, None)
        elif what == "trip":
            assert board.trip(name, TRIP, now_ns) is (name not in held)
            pause = board.paused[name]
            # Beside a hand's or the configuration's pause the brake's own is not shown.
            held[name] = max(pause.until_ns or NEVER_NS, held.get(name, 0))
        elif what == "wait":
            now_ns += int(which) * S
            over = {name for name, until_ns in held.items() if until_ns <= now_ns and name in braked(board)}
            assert over <= set(board.look(now_ns))
            held = {name: until_ns for name, until_ns in held.items() if name in braked(board)}
        else:
            flags[name] = what == "configured"
            configure()
        expected = hand | {name for name, flag in flags.items() if flag} | braked(board)
        assert set(board.paused) == expected
        assert board.by_hand.keys() == hand
        for one, pause in board.paused.items():
            assert pause.reason == (BY_HAND if one in hand else CONFIG if flags[one] else ERRORS)
            assert (pause.until_ns is None) is (pause.reason != ERRORS)
            assert pause.detail and pause.remedy


def braked(board: Switch) -> set[str]:
    return {name for name, brake in board._brakes.items() if brake.pause is not None}


def test_a_pause_by_a_brake_lasts_from_when_the_cause_was_last_seen_and_longer_each_time() -> None:
    board = Switch({"a": Setting(brakes=BrakeSpec(hold_s=60, most_hold_s=200))})
    now_ns, lasted = 0, list[int]()
    for _ in range(4):
        for _ in range(10):  # the cause is seen for ten seconds
            now_ns += S
            board.trip("a", TRIP, now_ns)
        last_ns = now_ns
        assert board.trips["a", ERRORS] == len(lasted) + 1
        while "a" in board.paused:
            due_ns = board.due_ns()
            assert due_ns is not None
            assert board.look(due_ns - 1) == [] and board.look(due_ns) == ["a"]
            now_ns = due_ns
        lasted.append((now_ns - last_ns) // S)
    assert lasted == [60, 120, 200, 200]
    now_ns += 1000 * S  # it ran for long: what comes now is a first one
    board.trip("a", TRIP, now_ns)
    assert board.due_ns() == now_ns + 60 * S
    board.resume("a", now_ns)
    assert board.paused == {} and board.due_ns() is None


def test_what_is_no_experiment_is_neither_tripped_nor_shown_and_a_hand_is_remembered_for_it() -> None:
    board = Switch({"a": Setting()})
    assert board.trip("z", TRIP, 0) is False and board.unknown(["a", "z"]) == ["z"]
    board.pause("z", 0, "its GPU burns")
    assert board.paused == {} and board.by_hand == {"z": "its GPU burns"}
    board.configure({"z": Setting()}, 1)
    assert list(board.paused) == ["z"]


@given(st.floats(1, 1000), st.floats(1, 10_000), st.integers(1, 10_000))
def test_a_hold_never_shrinks_nor_passes_its_bound(first: float, most: float, times: int) -> None:
    spec = BrakeSpec(hold_s=first, most_hold_s=most)
    row = [hold_s(spec, n) for n in range(1, 30)] + [hold_s(spec, times + 30)]
    assert row[0] == first and all(one <= other for one, other in pairwise(row))
    assert max(row) <= max(first, most)


# The brakes


def seconds(brake: ProductionBrake, start: int, n: int, reading: tuple[int, int, float]) -> list[str]:
    """`n` seconds in which so many requests ended, so many failed, with such a TTFT: what was said."""
    ended, failed, ttft_s = reading
    said = []
    for at in range(start, start + n):
        trip = brake.look(Reading(at * S, ended, failed, [ttft_s] * (ended - failed)))
        if trip is not None:
            said.append(trip.reason)
    return said


def test_production_that_fails_trips_it_and_only_while_it_does() -> None:
    brake = ProductionBrake(BrakeSpec(window_s=10, least=20, error_share=0.1))
    assert seconds(brake, 0, 60, (10, 1, 0.1)) == []  # a tenth is not more than a tenth
    assert set(seconds(brake, 60, 10, (10, 5, 0.1))) == {ERRORS}
    assert set(seconds(brake, 70, 5, (10, 0, 0.1))) == {ERRORS}
    assert seconds(brake, 80, 20, (10, 0, 0.1)) == []


def test_a_few_failures_among_few_requests_say_nothing() -> None:
    brake = ProductionBrake(BrakeSpec(window_s=10, least=20))
    assert seconds(brake, 0, 60, (1, 1, 0.1)) == []


def test_first_tokens_far_above_what_is_usual_trip_it_and_in_time_become_usual() -> None:
    brake = ProductionBrake(BrakeSpec(window_s=10, slowdown=3.0))
    assert seconds(brake, 0, 120, (10, 0, 0.2)) == []
    assert seconds(brake, 120, 20, (10, 0, 0.5)) == []
    said = seconds(brake, 140, 1000, (10, 0, 2.0))
    assert set(said) == {LATENCY} and 30 < len(said) < 900


def test_a_rise_that_nobody_feels_trips_nothing_nor_does_one_before_anything_is_usual() -> None:
    brake = ProductionBrake(BrakeSpec(window_s=10))
    assert seconds(brake, 0, 120, (10, 0, 0.002)) == []
    assert seconds(brake, 120, 60, (10, 0, 0.04)) == []
    fresh = ProductionBrake(BrakeSpec(window_s=10))
    assert seconds(fresh, 0, 10, (10, 0, 0.1)) + seconds(fresh, 10, 10, (10, 0, 2.0)) == []


def test_a_bound_on_first_tokens_holds_from_the_start() -> None:
    brake = ProductionBrake(BrakeSpec(window_s=10, ttft_ms=500, slowdown=None))
    assert set(seconds(brake, 0, 10, (10, 0, 0.6))) == {LATENCY}
    assert seconds(brake, 30, 30, (10, 0, 0.4)) == []


def test_steady_traffic_of_any_shape_trips_nothing() -> None:
    """Long prompts among short ones, twenty times as slow: what is usual has them in it."""
    from random import Random

    rng, brake = Random(3), ProductionBrake(BrakeSpec())
    for at in range(2000):
        ttfts = [rng.lognormvariate(-1.5, 1.0) * (20 if rng.random() < 0.1 else 1) for _ in range(8)]
        assert brake.look(Reading(at * S, 8, 0, ttfts)) is None, at


@pytest.mark.parametrize(("queued", "refused"), [(90, 0), (0, 4)])
def test_a_lane_that_stays_full_trips_it_and_one_that_is_full_for_a_moment_does_not(
    queued: int, refused: int
) -> None:
    brake = LaneBrake(BrakeSpec(lane_share=0.8))
    assert [brake.look(queued, 100, refused) is None for _ in range(2)] == [True, True]
    assert brake.look(10, 100, 0) is None
    said = [brake.look(queued, 100, refused) for _ in range(4)]
    assert [one and one.reason for one in said] == [None, None, LANE, LANE]
    assert brake.look(10, 100, 0) is None
    off = LaneBrake(BrakeSpec(lane_share=1.0))
    assert [off.look(queued, 100, refused) for _ in range(9)] == [None] * 9


def test_memory_trips_it_by_what_is_held_or_by_what_is_left() -> None:
    spec = BrakeSpec(memory_bytes=100, memory_free=0.05)
    assert memory_trip(spec, "a worker", 100, 0.05) is None
    for held, free in ((101, 0.5), (10, 0.04)):
        trip = memory_trip(spec, "a worker", held, free)
        assert trip is not None and trip.reason == MEMORY
    assert memory_trip(BrakeSpec(memory_free=0), "a worker", 1 << 40, 0.0) is None
    assert memory_trip(BrakeSpec(), "a worker", 1 << 40, None) is None


def test_an_arm_that_fails_trips_it_by_its_share_over_the_window_and_not_by_its_past() -> None:
    brake = ArmBrake(BrakeSpec(window_s=10, least=20, arm_error_share=0.5))
    answers = failures = 0
    said = []
    for at in range(60):
        answers += 4
        failures += 4 if 20 <= at < 30 else 1
        trip = brake.look(at * S, {"control": (answers, 0), "c": (answers, failures)})
        said.append(trip is not None)
        assert trip is None or (trip.reason == ARM_ERRORS and "arm c" in trip.detail)
    assert not any(said[:22]) and any(said[22:32]) and not any(said[40:])
    brake.forget()
    assert brake.look(60 * S, {"c": (answers, answers)}) is None


def test_every_brake_has_a_reason_of_its_own() -> None:
    assert len(set(BRAKES)) == len(BRAKES) == 5


def test_engines_are_ended_for_as_long_as_a_pause_by_hand_says_so_and_a_later_one_may_say_so_too() -> None:
    board = Switch({"x": Setting(), "y": Setting()})
    board.pause("x", 1, "why")
    assert board.halted == frozenset()
    board.pause("x", 2, "another", halts=True)
    assert board.halted == {"x"} and board.paused["x"].detail == "why" and board.paused["x"].since_ns == 1
    board.pause("x", 3)  # does not take it back
    board.trip("y", Trip("memory", "d", "r"), 4)
    assert board.halted == {"x"}
    board.resume("x", 5)
    assert board.halted == frozenset()
