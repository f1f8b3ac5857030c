"""The rules: each cause by what shows it, graver ones first, and no more certain than what is known."""

from dataclasses import fields, replace

import pytest

from analysis.why.rules import RULES, Cause, diagnose
from analysis.why.signals import Signals
from analysis.why.tries import TRIES, tries

# An engine that decodes for thirty requests at a time, with everything recorded.
CALM = Signals(
    seconds=30.0,
    late=0.0,
    inflight=31.0,
    running=30.0,
    queued=0.0,
    working=1.0,
    kv_usage=0.4,
    preemptions=0.0,
    step_tokens=200.0,
    prefill=0.2,
    gpu_busy=0.98,
    memory_busy=0.3,
    tensor_busy=0.3,
    throttled=0.0,
)


@pytest.mark.parametrize(
    ("cause", "seen"),
    [
        ("client", {"late": 0.4}),
        ("network", {"inflight": 60.0}),
        ("kv_capacity", {"preemptions": 3.0, "kv_usage": 0.97}),
        ("kv_capacity", {"queued": 5.0, "kv_usage": 0.97, "inflight": 36.0}),
        ("idle", {"working": 0.2, "running": 0.3, "inflight": 0.4}),
        ("stalled", {"queued": 5.5, "running": 0.1, "working": 0.1, "gpu_busy": 0.05, "inflight": 6.0}),
        ("scheduling", {"queued": 5.0, "pinned": 1.0, "inflight": 36.0}),
        ("cpu", {"gpu_busy": 0.4}),
        ("memory_bandwidth", {"memory_busy": 0.8}),
        ("compute", {"tensor_busy": 0.7}),
    ],
)
def test_each_cause_is_found_by_what_shows_it_and_is_measured(cause: Cause, seen: dict[str, float]) -> None:
    found = diagnose(replace(CALM, **seen))
    expected = "inferred" if cause == "scheduling" else "measured"
    assert (found.cause, found.strength, found.open) == (cause, expected, ())


def test_a_queue_beside_a_gpu_that_is_not_busy_is_no_idle_engine_and_asks_for_no_more_load() -> None:
    queue = Signals(
        seconds=30.0, queued=5.5, running=0.1, working=0.1, kv_usage=0.1, gpu_busy=0.05, inflight=6.0
    )
    assert diagnose(queue).cause == "stalled"
    assert not any("sample.rate" in one.flag for one in tries(diagnose(queue).cause, "vllm"))
    running = replace(CALM, queued=5.5, gpu_busy=0.3, inflight=36.0, pinned=0.1)
    assert (diagnose(running).cause, diagnose(running).strength) == ("stalled", "inferred")
    assert diagnose(replace(running, pinned=1.0)).cause == "scheduling"
    assert diagnose(replace(running, queued=0.9, inflight=31.0)).cause == "cpu"
    assert diagnose(replace(queue, queued=None)).cause == "unknown"
    assert diagnose(replace(queue, queued=0.9, inflight=1.0)).cause == "idle"


def test_where_nothing_stands_out_nothing_is_said() -> None:
    assert diagnose(replace(CALM, intensity=200.0)).cause == "unknown"
    assert diagnose(Signals(seconds=30.0)).cause == "unknown"


@pytest.mark.parametrize(
    ("unseen", "cause"),
    [(("tensor_busy",), "memory_bandwidth"), (("tensor_busy", "gpu_busy"), "memory_bandwidth")],
)
def test_without_the_gpus_own_counters_it_is_inferred_from_the_tokens_of_a_step(
    unseen: tuple[str, ...], cause: Cause
) -> None:
    blind = replace(CALM, step_tokens=40.0, tensor_busy=None)
    if "gpu_busy" in unseen:
        blind = replace(blind, gpu_busy=None)
    found = diagnose(blind)
    assert (found.cause, found.strength) == (cause, "inferred")
    assert ("cpu" in found.open) is ("gpu_busy" in unseen)
    assert set(unseen) <= set(found.lacking)


def test_a_cause_that_could_not_be_tried_makes_what_is_found_after_it_an_inference() -> None:
    blind = replace(CALM, kv_usage=None, tensor_busy=0.7)
    found = diagnose(blind)
    assert (found.cause, found.strength) == ("compute", "inferred")
    assert set(found.open) == {"kv_capacity", "stalled", "scheduling"}


def test_a_cause_that_one_rule_could_try_is_ruled_out_though_another_could_not() -> None:
    found = diagnose(replace(CALM, preemptions=None, tensor_busy=0.7))
    assert (found.cause, found.strength, found.open) == ("compute", "measured", ())


def test_graver_causes_come_first_for_they_explain_the_slighter() -> None:
    all_at_once = replace(
        CALM, late=0.5, preemptions=9.0, kv_usage=1.0, queued=9.0, pinned=1.0, gpu_busy=0.1, memory_busy=0.9
    )
    assert diagnose(all_at_once).cause == "client"
    assert diagnose(replace(all_at_once, late=0.0)).cause == "kv_capacity"
    assert diagnose(replace(all_at_once, late=0.0, kv_usage=0.3)).cause == "scheduling"


def test_every_rule_reads_signals_that_there_are_and_every_cause_has_something_to_try() -> None:
    names = {field.name for field in fields(Signals)}
    assert all(set(rule.needs) <= names for rule in RULES)
    assert {rule.cause for rule in RULES} == set(TRIES)
    for cause in TRIES:
        assert tries(cause, None) and tries(cause, "vllm") and tries(cause, "one nobody knows")
    assert tries(None, "vllm") == () == tries("unknown", "vllm")
