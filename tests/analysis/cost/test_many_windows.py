"""Where windows are many they are joined: figures stay what they are, nothing is counted twice or lost."""

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from analysis.columns import Columns
from analysis.cost.axes import axes
from analysis.cost.figures import arm_cost
from analysis.cost.slices import FIELDS, Slices
from analysis.cost.tally import Tally
from tests.analysis.cost.recordings import SPEC, WINDOW_NS, pairs, readings, recorded

TAKEN = list(pairs([4.0, 4.0], 600.0))
RECORDED = recorded(TAKEN, list(readings(1300)))


@pytest.mark.parametrize("join", [2, 8, 16])
def test_figures_of_joined_windows_are_those_of_all_windows(join: int) -> None:
    ours, theirs = (arm_cost(one, "same")["curve"][0] for one in (RECORDED, replace(RECORDED, join=join)))
    assert theirs["windows"] < ours["windows"] / join + 2
    for key in ("seconds", "requests_per_s"):
        assert theirs[key] == pytest.approx(ours[key])
    assert theirs["joules_per_token"]["total"]["value"] == pytest.approx(
        ours["joules_per_token"]["total"]["value"], rel=0.01
    )
    assert theirs["slo"]["value"] == pytest.approx(ours["slo"]["value"], abs=0.01)


@pytest.mark.parametrize("join", [3, 7])
def test_no_request_is_lost_or_counted_twice_and_no_run_goes_on_over_a_pause(join: int) -> None:
    runs, joined = RECORDED.runs("same"), replace(RECORDED, join=join).runs("same")
    assert len(runs.spans()) == len(joined.spans()) == 2
    for name in FIELDS[3:]:
        assert runs.slices.of(name).sum() == joined.slices.of(name).sum(), name
    assert joined.slices.seconds.sum() == pytest.approx(runs.slices.seconds.sum())
    assert joined.slices.seconds.max() == join * 2.0


def test_as_axes_joined_windows_tell_the_same_ratio() -> None:
    numbers = RECORDED.tally.of("control").of("number")[1:-1]
    for join in (1, 8):
        for axis in axes(replace(RECORDED, join=join), ("same", "slow"), numbers):
            said = axis.show(0.05)["candidates"]["same"]
            assert said["ratio"] == pytest.approx(1.0, abs=1e-6) and said["units"] >= 60, axis.name


def test_as_axes_joined_windows_of_which_most_are_pause_are_left_out() -> None:
    join = 8
    numbers = RECORDED.tally.of("control").of("number")[5:-1]
    held = Counter((numbers // join).tolist())
    assert numbers[0] == 5 and held[0] == 3  # of the first eight
    for axis in axes(replace(RECORDED, join=join), ("same", "slow"), numbers):
        said = axis.show(0.05)["candidates"]["same"]
        assert said["units"] == sum(windows >= join / 2 for windows in held.values()), axis.name


def test_pairs_are_counted_alike_however_they_come_together_and_in_whatever_order() -> None:
    shuffled = Random(3).sample(TAKEN, len(TAKEN))
    tally = Tally(SPEC)
    for begin in range(0, len(shuffled), 700):
        some = shuffled[begin : begin + 700]
        tally.add(Columns.of(some), np.array([one.at_ns for one in some]) // WINDOW_NS)
    for arm in ("control", "same", "slow"):
        assert np.array_equal(tally.of(arm).table, RECORDED.tally.of(arm).table)
        assert tally.sources[arm] == RECORDED.tally.sources[arm]


def test_an_arm_without_an_answer_has_no_run() -> None:
    nothing = Tally(SPEC).runs("same", WINDOW_NS)
    assert len(nothing.slices) == 0 and nothing.spans() == [] and nothing.joined(4).spans() == []
    assert len(Slices(np.zeros((len(FIELDS), 0), dtype=np.int64)).at(np.array([1, 2]))) == 2
