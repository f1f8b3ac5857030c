"""Readings of an engine and of GPUs, joined over some seconds: means, rises, None where too few."""

from typing import Any

import pytest

from analysis.why.engines import Reading, read_engine
from analysis.why.signals import Telemetry

S = 1_000_000_000


def look(second: float, late_ms: float = 0.0, busy_s: float = 0.0, **said: float) -> Reading:
    return Reading("a", int(second * S), late_ms, int(busy_s * S), "vllm", said)


def seen(*readings: Reading) -> Telemetry:
    found = Telemetry()
    for reading in readings:
        found.engine(reading)
    return found


def test_gauges_are_means_and_counters_what_they_rose_by() -> None:
    found = seen(
        *(
            look(
                n, busy_s=4.0 * n, running=3.0, queued=float(n % 2), kv_usage=0.5, preemptions=10.0 + n,
                steps=100.0 * n, computed_tokens=1000.0 * n, generated_tokens=3000.0 * n, flops=5e9 * n,
                bytes=1e8 * n,
            )
            for n in range(11)
        )
    ).signals("a", 0, 10 * S)  # fmt: skip
    assert (found.inflight, found.running, found.kv_usage) == pytest.approx((4.0, 3.0, 0.5))
    assert (found.preemptions, found.step_tokens, found.prefill) == pytest.approx((10.0, 40.0, 0.25))
    assert (found.intensity, found.working, found.pinned) == pytest.approx((50.0, 1.0, 1.0))
    assert found.queued == pytest.approx(5 / 11) and found.late == 0.0


def test_a_counter_that_fell_belongs_to_an_engine_that_began_anew_and_tells_nothing() -> None:
    found = seen(*(look(n, preemptions=float(n % 5), running=1.0) for n in range(11))).signals("a", 0, 10 * S)
    assert found.preemptions is None and found.running == 1.0


def test_fewer_than_three_looks_tell_nothing_and_no_other_times_looks_count() -> None:
    few = seen(look(1, running=1.0), look(2, running=1.0))
    assert few.signals("a", 0, 10 * S).running is None
    apart = seen(*(look(n, running=1.0) for n in range(3)), *(look(n, running=9.0) for n in range(20, 30)))
    assert apart.signals("a", 0, 10 * S).running == 1.0
    assert apart.signals("b", 0, 10 * S).late is None


def test_late_looks_are_counted_though_the_engine_says_nothing() -> None:
    found = seen(*(look(n, late_ms=80.0 if n < 5 else 1.0) for n in range(10))).signals("a", 0, 10 * S)
    assert found.late == 0.5 and found.running is None


def test_gpus_are_averaged_over_looks_and_over_each_other() -> None:
    found = Telemetry()
    for n in range(4):
        gpus: list[dict[str, Any]] = [
            {"uuid": "x", "utilisation": 0.5, "throttling": ["power_cap"]},
            {"uuid": "y", "utilisation": 1.0, "tensor_busy": 0.25, "throttling": []},
        ]
        found.gpus({"arm": "a", "at_ns": n * S, "gpus": gpus})
    signals = found.signals("a", 0, 10 * S)
    assert (signals.gpu_busy, signals.tensor_busy, signals.throttled) == pytest.approx((0.75, 0.25, 0.5))
    assert signals.memory_busy is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"arm": 3},
        {"late_ms": -1.0},
        {"late_ms": float("nan")},
        {"said": {"running": -1}},
        {"said": {"running": "many"}},
        {"said": {"kind": 3}},
        {"said": [1]},
        {"busy_ns": None},
    ],
)
def test_what_is_no_reading_is_refused(wrong: dict[str, Any]) -> None:
    right = {"arm": "a", "at_ns": 1, "late_ms": 0.0, "busy_ns": 0, "said": {"running": 1.0}}
    assert read_engine(right).said == {"running": 1.0}
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        read_engine({**right, **wrong})
