"""In which order processes are told, and that no one of them holds up the rest for ever."""

from dataclasses import replace
from typing import Any

from config.load import load
from gateway.processes.compose import Told, compose
from gateway.processes.rollout import ANALYSIS, SHADOW, Rollout, Spec, changes, steps

BASE: dict[str, Any] = {"fleets": [{"model": "m", "engines": ["http://a"]}], "workers": 2}


def trial(name: str, control: str = "http://c", **more: Any) -> dict[str, Any]:
    candidates = [{"name": "x", "engine": f"http://{name}"}]
    return {"name": name, "control": {"engine": control}, "candidates": candidates, **more}


def told(*experiments: dict[str, Any], **more: Any) -> Told:
    config = load(None, {}, {**BASE, "experiments": list(experiments), **more})
    return compose(config, secret=bytes(32), run_dir="/run/x", version="1")


def plan(old: Told, new: Told) -> list[tuple[list[str], list[list[str]]]]:
    """Each step: who is told, and of which experiments."""
    said: dict[bytes, Spec] = {}

    def body(spec: Spec) -> bytes:
        key = b"%d" % len(said)
        said[key] = spec
        return key

    def names(spec: Any) -> list[str]:
        return [getattr(one, "experiment", None) or one.name for one in spec.experiments]

    return [
        (sorted(step), [names(said[text]) for _child, text in sorted(step.items())])
        for step in steps(old, new, body)
    ]


WORKERS = ["worker-0", "worker-1"]


def test_a_change_of_engines_is_told_to_workers_only_and_at_once() -> None:
    old = told(trial("t"))
    new = told(trial("t"), fleets=[{"model": "m", "engines": ["http://b"]}])
    assert plan(old, new) == [(WORKERS, [["t"], ["t"]])]


def test_a_changed_experiment_ends_in_the_workers_then_the_shadow_before_the_analysis_begins_it_anew() -> (
    None
):
    old, new = told(trial("t"), trial("s", "http://d")), told(trial("t"), trial("s", "http://e"))
    assert plan(old, new) == [
        (WORKERS, [["t"], ["t"]]),
        ([SHADOW], [["t"]]),
        ([ANALYSIS], [["t", "s"]]),
        ([SHADOW], [["t", "s"]]),
        (WORKERS, [["t", "s"], ["t", "s"]]),
    ]


def test_an_added_experiment_is_known_to_analysis_and_shadow_before_it_is_sampled() -> None:
    assert plan(told(), told(trial("t"))) == [
        (WORKERS, [[], []]),
        ([ANALYSIS], [["t"]]),
        ([SHADOW], [["t"]]),
        (WORKERS, [["t"], ["t"]]),
    ]


def test_only_other_engines_or_another_judgement_make_an_experiment_begin_anew() -> None:
    old = told(trial("t"))
    for same in ({"max_inflight": 3}, {"timeout_s": 5}):
        found = changes(old, told({**trial("t"), **same}))
        assert found.ending == {"t"} and not found.anew
    for other in ({"alpha": 0.01}, {"control": {"engine": "http://z"}}, {"window_s": 9}):
        assert changes(old, told({**trial("t"), **other})).anew == ("t",)
    assert changes(old, told(trial("t"))).same == {"t"}
    assert changes(old, told()).anew == ("t",)


def test_a_step_waits_for_all_it_told_and_goes_on_without_who_dies_or_is_silent() -> None:
    rollout = Rollout(7, [{"a": b"1", "b": b"2"}, {"c": b"3"}, {"a": b"4"}], patience_ns=100)
    assert rollout.due(0) == {"a": b"1", "b": b"2"}
    rollout.answered("a", 7, None)
    rollout.answered("b", 6, None)  # of an earlier configuration
    assert rollout.due(1) is None
    rollout.lost("b")
    assert rollout.due(2) == {"c": b"3"}
    assert rollout.due(101) is None
    assert rollout.due(102) == {"a": b"4"}
    rollout.answered("a", 7, "cannot")
    assert rollout.due(103) is None and rollout.done
    assert (rollout.late, rollout.errors) == (["c"], {"a": "cannot"})


def test_a_shadow_without_experiments_is_told_to_end_them() -> None:
    old = told(trial("t"))
    assert old.shadow is not None
    new = replace(told(), shadow=replace(old.shadow, experiments=()))
    assert [who for who, _ in plan(old, new)] == [WORKERS, [SHADOW], [ANALYSIS], [SHADOW], WORKERS]
