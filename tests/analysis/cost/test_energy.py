"""Energy between two instants: by the counter, by power where there is none, and when neither is believed."""

from collections.abc import Iterable

import numpy as np
import pytest

from analysis.cost.energy import GpuReadings, Used
from tests.analysis.cost.recordings import S, gpu

Told = Iterable[tuple[float, float | None, float | None]]  # second, watts, joules


def used(told: Told, begin_s: float, end_s: float, slices: int = 1) -> Used:
    found = GpuReadings()
    for at_s, watts, joules in told:
        found.add({"arm": "a", "at_ns": int(at_s * S), "gpus": [gpu(at_s, watts, joules)]})
    edges = np.linspace(begin_s, end_s, slices + 1) * S
    return found.energy("a", edges[:-1], edges[1:]).used(np.arange(slices))


STEADY = [(float(n), 100.0, 5000.0 + 100.0 * n) for n in range(101)]


def test_the_counter_is_read_between_the_readings_around_an_instant() -> None:
    found = used(STEADY, 10.25, 20.75)
    assert found.joules.tolist() == pytest.approx([1050.0])
    assert (found.source, found.is_valid, found.why) == ("counter", True, None)


def test_where_there_is_no_counter_power_is_integrated_and_said_to_be_unchecked() -> None:
    ramp = [(float(n), 10.0 * n, None) for n in range(101)]
    found = used(ramp, 10.0, 20.0)
    assert found.joules.tolist() == pytest.approx([1500.0])
    assert (found.source, found.is_valid) == ("power", False) and "no energy counter" in (found.why or "")


@pytest.mark.parametrize(("watts", "valid"), [(100.0, True), (104.0, True), (120.0, False)])
def test_a_counter_is_believed_while_power_readings_agree_within_a_twentieth(
    watts: float, valid: bool
) -> None:
    found = used([(at, watts, joules) for at, _, joules in STEADY], 10.0, 90.0, 8)
    assert found.is_valid is valid and np.nansum(found.joules) == pytest.approx(8000.0)


def test_slices_between_readings_that_are_far_apart_have_no_energy() -> None:
    holed = [one for one in STEADY if not 40.0 < one[0] < 50.0]
    found = used(holed, 30.0, 60.0, 3)
    assert np.isnan(found.joules).tolist() == [False, False, False]  # the counter knows what passed between
    edges = used(holed, 35.0, 55.0, 4)
    assert np.isnan(edges.joules).tolist() == [False, True, True, False]
    assert not edges.is_valid and "too far apart" in (edges.why or "")


def test_power_is_not_integrated_over_a_hole() -> None:
    holed = [(at, watts, None) for at, watts, _ in STEADY if not 40.0 < at < 50.0]
    assert np.isnan(used(holed, 30.0, 60.0).joules).all()


def test_a_counter_that_began_anew_tells_nothing_of_the_time_between() -> None:
    anew = [(at, watts, joules if at < 50.0 else joules - 9000.0) for at, watts, joules in STEADY]
    found = used(anew, 30.0, 70.0, 4)
    assert np.isnan(found.joules).tolist() == [False, True, False, False]


def test_outside_what_was_read_nothing_is_known() -> None:
    assert np.isnan(used(STEADY, -5.0, 5.0).joules).all()
    assert np.isnan(used(STEADY, 95.0, 105.0).joules).all()
    assert used([], 0.0, 1.0).source is None
