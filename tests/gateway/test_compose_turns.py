"""What the processes are told of arms that take turns, and of an experiment whose engines are others."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.spec import RaceSpec, TextSpec
from config.load import ConfigError, load
from config.race import Race, RaceWeights
from config.schema import Config
from gateway.processes.compose import compose
from gateway.processes.rollout import changes
from mirror.spec import ReplaySpec, SlotSpec


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


def replays(**more: Any) -> Any:
    return told(config(candidate="http://spare:2", mode="replay", replay={"files": "week", **more}))


def test_recorded_traffic_goes_to_arms_in_turn_and_workers_copy_nothing_for_it() -> None:
    spec = replays(rounds=3, speed=2, requests=10, seconds=60)
    replay = spec.shadow.experiments[0].replay
    assert replay == ReplaySpec((str(Path("week").absolute()),), 3, 2.0, 10, 60.0, ("m",))
    assert spec.shadow.experiments[0].slots == SlotSpec(600.0)
    assert not spec.workers[0].experiments
    assert told(config(candidate="http://spare:2")).workers[0].experiments


@pytest.mark.parametrize("more", [{"files": "other"}, {"speed": 2}, {"requests": 5}, {"seconds": 5}])
def test_other_recorded_traffic_is_another_epoch_and_another_round_of_it_is_not(more: Any) -> None:
    assert changes(replays(), replays(**more)).anew == ("fp8",)
    assert changes(replays(), replays(rounds=2)).anew == ()


@pytest.mark.parametrize(
    ("more", "place", "remedy"),
    [
        ({"mode": "replay"}, "experiments[0].replay", "a recording's folder or files"),
        ({"replay": "week"}, "experiments[0].mode", "replay, with a recording under replay"),
        ({"mode": "replay", "replay": "week", "sample": {"rate": 0.1}}, "experiments[0].sample.rate", "auto"),
        ({"mode": "replay", "replay": []}, "experiments[0].replay.files", "at least 1"),
    ],
)
def test_what_of_a_replay_does_not_fit_together_is_told_with_its_place(
    tmp_path: Path, more: Any, place: str, remedy: str
) -> None:
    arms = {"control": {"engine": "http://s:1"}, "candidates": [{"name": "c", "engine": "http://s:2"}]}
    written = {
        "fleets": [{"model": "m", "engines": ["http://e:1"]}],
        "experiments": [{"name": "fp8", **arms, **more}],
    }
    file = tmp_path / "shadowlane.yaml"
    file.write_text(json.dumps(written))
    with pytest.raises(ConfigError) as refused:
        load(file, {}, {})
    assert place in str(refused.value) and remedy in str(refused.value)


def test_what_is_forced_scored_counted_and_kept_is_told() -> None:
    beside = told(config(candidate="http://spare:2", forced_pairs=200, scored_pairs=300, scored_rows=512))
    assert beside.analysis.experiments[0].forced_pairs == 200
    assert beside.analysis.experiments[0].scored_pairs == 300
    assert beside.shadow.experiments[0].scored_rows == 512
    assert beside.analysis.experiments[0].tokenizer == ""
    counts = told(config(candidate="http://spare:2", tokenizer="/m/tokenizer.json", text_bytes=4096))
    assert counts.analysis.experiments[0].tokenizer == "/m/tokenizer.json"
    assert list(counts.analysis.texts.values()) == [TextSpec(4096)] and beside.analysis.texts == {}


def test_when_candidates_leave_is_told_and_they_leave_only_where_it_is_asked_for() -> None:
    said = config(candidate="http://spare:2")
    one, other = said.experiments[0], said.experiments[0].candidates[0]
    assert told(said).analysis.experiments[0].race is None
    two = (other, other.model_copy(update={"name": "b", "engine": "http://spare:3"}))
    race = Race(first_rung=30, weights=RaceWeights(tpot=1, ttft=2), beaten=False)
    asked = said.model_copy(
        update={"experiments": (one.model_copy(update={"candidates": two, "race": race}),)}
    )
    assert told(asked).analysis.experiments[0].race == RaceSpec(False, 30, {"ttft": 2.0, "tpot": 1.0}, False)
