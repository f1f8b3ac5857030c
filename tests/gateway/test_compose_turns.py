"""What the processes are told of arms that take turns, and of an experiment whose engines are others."""

from typing import Any

import pytest

from config.schema import Config
from gateway.compose import compose
from gateway.rollout import changes
from mirror.spec import SlotSpec


def config(control: str = "http://spare:1", candidate: str = "http://spare:1", **more: Any) -> Config:
    experiment = {
        "name": "fp8",
        "control": {"engine": control},
        "candidates": [{"name": "fp8", "engine": candidate}],
        **more,
    }
    return Config.model_validate(
        {"fleets": [{"model": "m", "engines": ["http://e:1"]}], "experiments": [experiment]}
    )


def told(written: Config) -> Any:
    return compose(written, secret=b"s" * 32, run_dir="/run", version="0")


def test_one_address_for_all_arms_with_a_command_that_switches() -> None:
    turns = {"slot_s": 60, "switch": "/opt/stand.sh '{arm} now'", "ready_s": 90}
    shadow = told(config(mode="switchback", turns=turns)).shadow
    assert shadow.experiments[0].slots == SlotSpec(60.0, ("/opt/stand.sh", "{arm} now"), 90.0)


def test_side_by_side_unless_told_otherwise() -> None:
    spec = told(config(candidate="http://spare:2"))
    assert spec.shadow.experiments[0].slots is None and spec.analysis.experiments[0].mode == "live"


@pytest.mark.parametrize(
    "other",
    [
        {"candidate": "http://spare:3"},
        {"control": "http://spare:3"},
        {"alpha": 0.01},
        {"margin": 0.1},
        {"window_s": 5},
        {"mode": "switchback"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_other_engines_alpha_margin_window_or_mode_begin_a_new_epoch_also_after_a_restart(other: Any) -> None:
    before, after = (
        told(config(candidate="http://spare:2")),
        told(config(**{"candidate": "http://spare:2"} | other)),
    )
    assert changes(before, after).anew == ("fp8",)
    # after a restart it is the log's own header that tells
    assert before.analysis.experiments[0] != after.analysis.experiments[0]


def test_what_changes_no_verdict_goes_on_in_the_same_epoch() -> None:
    before = told(config(candidate="http://spare:2"))
    after = told(config(candidate="http://spare:2", sample={"rate": 0.5}, max_inflight=8))
    assert changes(before, after).anew == () and changes(before, after).ending == {"fp8"}
    assert before.analysis.experiments == after.analysis.experiments


def test_tokens_are_forced_side_by_side_only() -> None:
    beside = told(config(candidate="http://spare:2", forced_pairs=200))
    assert beside.analysis.experiments[0].forced_pairs == 200
    turns = told(config(candidate="http://spare:2", forced_pairs=200, mode="switchback"))
    assert turns.analysis.experiments[0].forced_pairs == 0
