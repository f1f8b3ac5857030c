"""Faults injected blindly into an emulated engine are found, and what is called measured is right.

A small version of `python -m bench.why`; virtual time and fixed seeds, so that it always says the same.
"""

import pytest

from bench.why.faults import SCENES
from bench.why.score import TELEMETRY, Found, scored, table


@pytest.fixture(scope="module")
def found() -> list[Found]:
    return list(scored(runs=2, seconds=60, seed=7))


def test_with_all_telemetry_nine_in_ten_faults_are_found_and_each_kind_in_most_of_the_time(
    found: list[Found],
) -> None:
    rows = table(found, "DCGM with profiling")
    right = {cause: counts[cause] / counts.total() for cause, counts in rows.items()}
    assert sum(right.values()) / len(right) >= 0.9
    assert min(right.values()) > 0.5, right
    assert {counts.total() for counts in rows.values()} == {4}


@pytest.mark.parametrize("telemetry", list(TELEMETRY))
def test_what_is_called_measured_is_right_in_nineteen_of_twenty(found: list[Found], telemetry: str) -> None:
    sure = [one for one in found if one.telemetry == telemetry and one.strength == "measured"]
    assert len(sure) >= 12
    assert sum(one.injected == one.found for one in sure) >= 0.95 * len(sure)


def test_a_host_that_is_too_slow_cannot_be_told_without_readings_of_the_gpu_and_is_never_called_measured(
    found: list[Found],
) -> None:
    blind = [one for one in found if one.telemetry == "engine's metrics only" and one.injected == "cpu"]
    assert blind and all(one.strength != "measured" for one in blind)
    assert len(SCENES) == 9
