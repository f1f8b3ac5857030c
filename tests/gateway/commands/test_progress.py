"""How far a replay is, in a line: what is sent of what, how late, and how long it takes yet."""

from typing import Any

from gateway.commands.experiment import line
from tests.analysis.shell import rankings

REPLAY = {"turns": 36, "sends": 1000, "sent": 250, "late_ms": 4.2, "left_s": 600.0}


def listed(paused: dict[str, Any] | None = None, **slots: Any) -> str:
    one = {"name": "fp8", "mode": "replay", "phase": "live", "epoch": 2, "paused": paused}
    return line({**one, "slots": rankings.turns(**slots)["slots"]})


def test_a_replay_that_runs_says_what_is_sent_of_all_how_late_and_how_long_it_takes_yet() -> None:
    assert listed(replay=REPLAY) == (
        "fp8  live  epoch 2  replayed; replayed 9 of 36 blocks, 250 of 1000 requests sent,"
        " the latest 4 ms after its instant, about 10 min left"
    )


def test_one_that_is_over_has_nothing_left_and_one_whose_time_is_not_known_says_none() -> None:
    assert listed(replay=REPLAY, over=True, turns=36).endswith("after its instant, all is sent")
    assert "left" not in listed(replay={**REPLAY, "left_s": None})
    assert "instant" not in listed(replay={**REPLAY, "late_ms": None})
    assert listed(replay={"turns": None}).endswith("replayed; the recording is being read")


def test_what_did_not_come_is_said_also_of_an_experiment_that_is_paused() -> None:
    troubles = {"the recording": "x.jsonl: it has no row"}
    said = listed(replay={"turns": None}, troubles=troubles)
    assert said.endswith("replayed; the recording did not come: x.jsonl: it has no row")
    pause = {"reason": "by_hand", "detail": "d", "remedy": "r", "for_s": 1, "resumes_in_s": None}
    assert listed(pause, replay=REPLAY).endswith("d; r; replayed 9 of 36 blocks, 250 of 1000 requests sent,"
        " the latest 4 ms after its instant, about 10 min left")  # fmt: skip


def test_an_experiment_whose_arms_stand_side_by_side_is_as_short_as_before() -> None:
    one = {"name": "fp8", "mode": "live", "phase": "live", "epoch": 2, "paused": None, "slots": None}
    assert line(one) == "fp8  live  epoch 2  copied"
