"""Figures of arms' GPUs: means of what was told, and nothing of what was not."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from analysis.hardware import Hardware


def shown(*gpus: dict[str, Any]) -> dict[str, Any]:
    hardware = Hardware()
    for told in gpus:
        hardware.add({"arm": "control", "at_ns": 1, "source": "nvml", "gpus": [{"uuid": "GPU-1", **told}]})
    found: dict[str, Any] = hardware.show()["control"]["gpus"][0]
    return found


def test_what_is_not_told_is_missing_and_never_0() -> None:
    found = shown({}, {})
    absent = ("utilisation", "memory_used_bytes", "power_w", "energy_wh", "sm_clock_mhz", "throttled")
    assert [found[name] for name in absent] == [None] * len(absent)
    assert (found["xid"], found["throttling"]) == ([], {})


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=20))
def test_energy_is_what_the_counter_rose_and_a_driver_loaded_anew_takes_nothing_away(read: list[int]) -> None:
    found = shown(*({"energy_mj": one} for one in read))
    rises = [after - before for before, after in pairwise(read) if after >= before]
    assert found["energy_wh"] == (sum(rises) / 3_600_000 if rises else None)


def test_throttling_is_a_share_of_the_readings_that_tell_of_it() -> None:
    found = shown(
        {"throttling": ["power_cap", "hw_thermal"]}, {"throttling": ["power_cap"]}, {}, {"throttling": []}
    )
    assert found["throttled"] == 2 / 3
    assert found["throttling"] == {"hw_thermal": 1 / 3, "power_cap": 2 / 3}


def test_each_arm_and_each_gpu_has_its_own_figures() -> None:
    hardware = Hardware()
    hardware.add({"arm": "control", "gpus": [{"uuid": "GPU-1", "power_w": 100.0}]})
    hardware.add({"arm": "x", "gpus": [{"uuid": "GPU-2", "power_w": 300.0}, {"uuid": "GPU-3", "xid": [79]}]})
    told = hardware.show()
    assert told["control"]["gpus"][0]["power_w"] == 100.0
    assert [gpu["power_w"] for gpu in told["x"]["gpus"]] == [300.0, None]
    assert told["x"]["gpus"][1]["xid"] == [79] and told["x"]["readings"] == 1
