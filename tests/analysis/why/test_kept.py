"""What engines count is kept in the log beside the pairs, and a replay has it again."""

from pathlib import Path
from typing import Any

import pytest

from analysis.course import Course, MalformedError
from analysis.store import NAME, Header, LogReader, LogWriter
from analysis.why.engines import Reading, read_engine
from tests.analysis.trials import SPEC, records

FRAME: dict[str, Any] = {
    "experiment": SPEC.name,
    "epoch": 1,
    "arm": "quick",
    "at_ns": 6_000_000_000,
    "late_ms": 1.5,
    "busy_ns": 7,
    "said": {"kind": "vllm", "running": 3.0},
}


def kept(folder: Path) -> list[Reading]:
    """What a replay of the log hears of engines."""
    return [read_engine(body) for kind, body in LogReader(folder / SPEC.name / NAME) if kind == "engine"]


def test_a_reading_is_kept_and_replayed_as_it_was(tmp_path: Path) -> None:
    course = Course(SPEC, tmp_path, now_ns=lambda: 5)
    course.load()
    course.engine(FRAME)
    course.close()
    assert kept(tmp_path) == [Reading("quick", 6_000_000_000, 1.5, 7, "vllm", {"running": 3.0})]


def test_after_a_restart_of_the_machine_readings_come_after_the_pairs_before_it(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / SPEC.name / NAME, Header(1, SPEC))
    writer.open()
    past = records(3)
    for record in past:
        writer.append("pair", record)
    writer.close()
    course = Course(SPEC, tmp_path, now_ns=lambda: 5_000_000_000)
    course.load()
    course.engine(FRAME)
    course.close()
    assert kept(tmp_path)[0].at_ns > max(record.at_ns for record in past)


@pytest.mark.parametrize(
    "wrong", [{"arm": None}, {"at_ns": "now"}, {"late_ms": -1}, {"said": {"running": "x"}}]
)
def test_what_is_no_reading_is_refused_and_not_kept(tmp_path: Path, wrong: dict[str, Any]) -> None:
    course = Course(SPEC, tmp_path, now_ns=lambda: 5)
    course.load()
    with pytest.raises(MalformedError):
        course.engine({**FRAME, **wrong})
    course.close()
    assert kept(tmp_path) == []
