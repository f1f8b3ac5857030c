"""The share of conversations that is copied follows from the load: the control as busy as one engine is."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.matching import SLICE_NS, Matching
from mirror.spec import ArmSpec, MirrorExperiment

S = 1_000_000_000


def run(
    matching: Matching, seconds: int, *, per_rate: float, production: float, lag_s: float = 1.0, seed: int = 1
) -> list[float]:
    """The control's in-flight, second by second: it comes to `per_rate` x rate, with a lag."""
    rng, control, busy, arm_busy = Random(seed), 0.0, 0.0, 0.0
    seen = []
    for second in range(seconds):
        control += (per_rate * matching.rate - control) * min(1.0, 1.0 / lag_s)
        busy += 2 * production * rng.lognormvariate(0, 0.1)  # two engines
        arm_busy += control * rng.lognormvariate(0, 0.1)
        at_ns = (second + 1) * S
        matching.production(0, at_ns, int(busy * S), 2)
        matching.look(at_ns, {"control": int(arm_busy * S)})
        seen.append(control)
    return seen


@pytest.mark.parametrize("lag_s", [1.0, 30.0, 120.0])
@pytest.mark.parametrize(("base", "per_rate"), [(0.5, 10.0), (0.5, 22.0), (0.5, 30.0), (1.0, 5.0)])
def test_auto_comes_to_within_five_per_cent_of_productions_load(
    base: float, per_rate: float, lag_s: float
) -> None:
    matching = Matching(base, auto=True)
    seen = run(matching, 2_400, per_rate=per_rate, production=11.0, lag_s=lag_s)
    late = seen[1_200:]
    assert abs(sum(late) / len(late) / 11.0 - 1) < 0.05
    assert matching.rate > 1.0 or per_rate > 11.0  # more than every conversation once, where that is needed


def test_a_control_that_had_nothing_for_an_hour_is_not_made_to_have_it_all_afterwards() -> None:
    matching = Matching(0.25, auto=True)
    busy = arm = control = 0.0
    afterwards = []
    for second in range(1, 6_000):
        control += ((40.0 * matching.rate if second > 3_600 else 0.0) - control) / 60.0
        busy, arm = busy + 10.0, arm + control
        matching.production(0, second * S, int(busy * S), 1)
        matching.look(second * S, {"control": int(arm * S)})
        afterwards.append(control)
    late = afterwards[4_200:4_800]  # from ten minutes on
    assert abs(sum(late) / len(late) / 10.0 - 1.0) < 0.1


def test_a_rate_that_was_written_is_never_changed() -> None:
    matching = Matching(0.1, auto=False)
    run(matching, 200, per_rate=10.0, production=11.0)
    assert matching.rate == 0.1


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50)), min_size=1, max_size=60))
def test_the_rate_never_leaves_its_bounds(loads: list[tuple[float, float]]) -> None:
    matching, busy, arm = Matching(0.5, auto=True), 0, 0
    for number, (production, control) in enumerate(loads, start=1):
        busy, arm = busy + int(production * 5 * S), arm + int(control * 5 * S)
        matching.production(0, number * 5 * S, busy, 1)
        matching.look(number * 5 * S, {"control": arm})
        assert 0.125 <= matching.rate <= 2.0


@pytest.mark.parametrize(
    ("kinds", "may"), [(("vllm", "sglang"), True), (("vllm", "llamacpp"), False), (("auto", "vllm"), False)]
)
def test_auto_sends_nothing_twice_where_an_arm_takes_no_salt(kinds: tuple[str, str], may: bool) -> None:
    """Such an arm would find a conversation's duplicates cached, and the others would not."""
    names = ("control", "fp8")
    arms = tuple(ArmSpec(name, "http://x", kind) for name, kind in zip(names, kinds, strict=True))
    matching = Matching(0.5, auto=True, most=MirrorExperiment("e", None, arms).most_times)
    run(matching, 200, per_rate=0.1, production=40.0)
    assert (matching.rate > 1.0) == may and (may or matching.rate == 1.0)


def test_a_slice_has_the_means_of_one_engine_and_of_each_arm() -> None:
    matching = Matching(0.5, auto=False)
    for worker in (0, 1):
        matching.production(worker, 0, 7 * S, 4)  # what was before the slice is no part of it
    assert matching.look(0, {"control": 3 * S, "fp8": 0}) is None
    for worker in (0, 1):
        matching.production(worker, 5 * S, 7 * S + 40 * S, 4)  # 2 x 40 request-seconds in 5 s over 4 engines
    assert matching.look(4 * S, {"control": 20 * S, "fp8": 10 * S}) is None
    seen = matching.look(SLICE_NS, {"control": 23 * S, "fp8": 10 * S})
    assert seen is not None
    assert (seen.span_s, seen.production, seen.arms) == (5.0, 4.0, {"control": 4.0, "fp8": 2.0})


def test_of_production_that_nobody_tells_of_nothing_is_said() -> None:
    matching = Matching(0.5, auto=True)
    for second in range(100):
        assert matching.look(second * S, {"control": 3 * second * S}) is None
    matching.production(0, 100 * S, 7 * S, 1)
    for second in (101, 105):
        matching.production(0, second * S, (7 + 2 * (second - 100)) * S, 1)
    seen = matching.look(105 * S, {"control": 303 * S})
    assert seen is not None and seen.span_s == 6.0  # since the look before the first word
    assert seen.production == pytest.approx(10 / 6) and seen.arms == {"control": 1.0}
    for second in range(106, 150):  # and nobody tells any more
        assert matching.look(second * S, {"control": 3 * second * S}) is None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=90))
def test_all_that_is_told_is_counted_however_late_and_the_arms_over_the_same_time(
    seconds: list[tuple[bool, int, int]],
) -> None:
    """A worker with much to do tells late: a mean over what each slice heard would forget most of that."""
    matching, busy, arm, told, silent = Matching(0.5, auto=False), 0, 0, 0, 0
    production = control = counted_s = 0.0
    matching.production(0, 0, 0, 2)
    matching.look(0, {"control": 0})
    for second, (tells, served, copied) in enumerate(seconds, start=1):
        busy, arm, silent = busy + served, arm + copied, silent + 1
        if tells or silent == 25:  # no silence is so long that it is a gap
            matching.production(0, second * S, busy * S, 2)
            told, silent = busy, 0
        if (seen := matching.look(second * S, {"control": arm * S})) is not None:
            production += seen.production * seen.span_s
            control += seen.arms["control"] * seen.span_s
            counted_s += seen.span_s
            assert production == pytest.approx(told / 2)
            assert control == pytest.approx(arm)
            assert counted_s == second


def test_of_a_long_silence_nothing_is_counted_on_either_side() -> None:
    matching = Matching(0.5, auto=False)
    matching.production(0, 0, 0, 1)
    matching.look(0, {"control": 0})
    assert matching.look(50 * S, {"control": 900 * S}) is None  # this process stood still
    matching.production(0, 51 * S, 900 * S, 1)  # and so did the worker
    matching.production(0, 52 * S, 905 * S, 1)
    seen = matching.look(55 * S, {"control": 905 * S})
    assert seen is not None and (seen.production, seen.arms) == (1.0, {"control": 1.0})


def test_a_worker_that_begins_anew_counts_from_there() -> None:
    matching = Matching(0.5, auto=False)
    matching.look(0, {"control": 0})
    matching.production(0, S, 90 * S, 1)
    matching.production(0, 2 * S, 0, 1)  # started again: it counts from nothing
    matching.production(0, 5 * S, 10 * S, 1)
    seen = matching.look(SLICE_NS, {"control": 0})
    assert seen is not None and seen.production == 2.0


def test_a_pause_is_no_part_of_any_mean() -> None:
    matching = Matching(0.5, auto=False)
    matching.look(0, {"control": 0})
    matching.pause()
    matching.production(0, 100 * S, 0, 1)
    assert matching.look(100 * S, {"control": 0}) is None
    matching.production(0, 105 * S, 0, 1)
    seen = matching.look(105 * S, {"control": 10 * S})
    assert seen is not None and seen.span_s == 5.0 and seen.arms == {"control": 2.0}


def test_while_the_control_is_asked_twice_its_load_sets_nothing_and_no_slice_mixes_the_two() -> None:
    matching = Matching(0.5, auto=True)
    for number in range(1, 13):
        matching.production(0, number * 5 * S, number * 50 * S, 1)
        matching.look(number * 5 * S, {"control": number * 100 * S}, doubled=True)
    assert matching.rate == 0.5
    assert matching.look(65 * S, {"control": 1300 * S}) is None
    matching.production(0, 70 * S, 700 * S, 1)
    seen = matching.look(70 * S, {"control": 1350 * S})
    assert seen is not None and seen.arms == {"control": 10.0}


@pytest.mark.parametrize(("kinds", "times"), [(("vllm", "sglang"), 2.5), (("vllm", "auto"), 1.0)])
def test_a_written_rate_sends_nothing_twice_either_where_an_arm_takes_no_salt(
    kinds: tuple[str, str], times: float
) -> None:
    names = ("control", "fp8")
    arms = tuple(ArmSpec(name, "http://x", kind) for name, kind in zip(names, kinds, strict=True))
    assert Matching(2.5, auto=False, most=MirrorExperiment("e", None, arms).most_times).rate == times
