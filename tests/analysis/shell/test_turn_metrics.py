"""What Prometheus is told of arms that take turns."""

from typing import Any

from analysis.web.turn_metrics import turn_metrics
from tests.analysis.shell import rankings


def told(**slots: Any) -> dict[tuple[str, str], float]:
    status = {
        "processes": [
            {"process": "worker-0"},
            {"process": "shadow", "experiments": [rankings.turns(**slots)]},
        ]
    }
    return {
        (sample.name, sample.labels.get("arm", "")): sample.value
        for metric in turn_metrics(status)
        for sample in metric.samples
    }


def test_whose_turn_it_is_and_how_far_a_replay_is_can_be_scraped() -> None:
    replay = {"turns": 36, "sends": 1000, "sent": 250, "late_ms": 4.0, "left_s": 90.0}
    assert told(replay=replay, troubles={"fp8-kv": "given up"}) == {
        ("shadowlane_turns_blocks_total", ""): 12,
        ("shadowlane_turns_standing", "control"): 1,
        ("shadowlane_turns_missing", "fp8-kv"): 1,
        ("shadowlane_replay_share", ""): 0.25,
        ("shadowlane_replay_requests_total", ""): 250,
        ("shadowlane_replay_requests_wanted", ""): 1000,
        ("shadowlane_replay_late_seconds", ""): 0.004,
        ("shadowlane_replay_left_seconds", ""): 90.0,
    }


def test_of_what_is_not_known_there_is_no_sample() -> None:
    assert told(standing=None, replay={"turns": None}) == {("shadowlane_turns_blocks_total", ""): 12}
    assert not list(
        turn_metrics({"processes": [{"process": "shadow", "experiments": [{"experiment": "t"}]}]})
    )
