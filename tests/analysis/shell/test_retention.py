"""Logs are bounded: a full one takes no more and still says all that is judged; old ones go, oldest first."""

import os
from pathlib import Path

from analysis.course import Course
from analysis.report import report, to_json
from analysis.retention import prune
from analysis.spec import Retention
from tests.analysis.shell.frames import SPEC, pair

DAY_S = 86_400.0
NOW_S = 100 * DAY_S


def old(folder: Path, name: str, days: float, size: int = 1000) -> Path:
    place = folder / name
    place.write_bytes(bytes(size))
    os.utime(place, (NOW_S - days * DAY_S,) * 2)
    return place


def test_a_full_log_takes_nothing_more_and_says_what_the_ranking_says(tmp_path: Path) -> None:
    course = Course(SPEC, tmp_path, keep=Retention(log_bytes=40_000))
    course.load()
    for n in range(400):
        course.pair(pair(n, "calibration" if n < 60 else "live")[1])
        course.carried({"span_s": 5.0, "production": 2.0, "arms": {"control": 2.0}})
    course.books({"admitted": 400, "paired": 400, "dropped": {}})
    assert course.is_full and course.log_state["lost"] == 0
    size = (tmp_path / SPEC.name / "log.msgpack").stat().st_size
    assert 40_000 <= size < 45_000
    shown = course.ranking()
    assert 0 < shown["pairs"] < 400 == shown["pairs"] + course.log_state["not_taken"]
    course.close()
    assert to_json(report(tmp_path / SPEC.name / "log.msgpack")) == to_json(shown)


def test_old_logs_go_by_age_and_then_the_oldest_first_until_they_fit(tmp_path: Path) -> None:
    in_use = old(tmp_path, "log.msgpack", 95)
    ancient = old(tmp_path, "log.epoch-1.msgpack", 91)
    index = old(tmp_path, "log.epoch-1.index.sqlite", 91)
    older, newer, newest = (old(tmp_path, f"log.epoch-{n}.msgpack", 90 - n) for n in (2, 3, 4))
    said = prune(tmp_path, Retention(old_bytes=2000, old_days=90.0), NOW_S)
    assert [place.exists() for place in (in_use, ancient, index, older, newer, newest)] == [
        True,
        False,
        False,
        False,
        True,
        True,
    ]
    assert len(said) == 2 and "91 days old" in said[0] and "log.epoch-2.msgpack" in said[1]
    assert prune(tmp_path, Retention(old_bytes=2000, old_days=90.0), NOW_S) == ()


def test_a_start_deletes_old_logs_and_says_so(tmp_path: Path) -> None:
    (tmp_path / SPEC.name).mkdir()
    gone = old(tmp_path / SPEC.name, "log.unreadable.msgpack", 99)
    course = Course(SPEC, tmp_path, now_s=lambda: NOW_S)
    assert any("deleted log.unreadable.msgpack" in notice for notice in course.load())
    assert not gone.exists()
    course.close()
