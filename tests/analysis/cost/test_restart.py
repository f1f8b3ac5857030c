"""After a restart of the machine its clock begins anew, and readings go on after the pairs before it."""

from pathlib import Path

from analysis.course import Course
from analysis.store import NAME, Header, LogReader, LogWriter
from tests.analysis.cost.recordings import S, gpu
from tests.analysis.trials import SPEC, records


def test_readings_after_a_restart_come_after_the_pairs_before_it(tmp_path: Path) -> None:
    path = tmp_path / SPEC.name / NAME
    writer = LogWriter(path, Header(1, SPEC))
    writer.open()
    past = records(3)
    for record in past:
        writer.append("pair", record)
    writer.close()
    course = Course(SPEC, tmp_path, now_ns=lambda: 5 * S)
    course.load()
    told = [gpu(0.0, 100.0, 1.0)]
    course.gpus({"experiment": SPEC.name, "arm": "quick", "at_ns": 6 * S, "source": "nvml", "gpus": told})
    course.close()
    (reading,) = [body for kind, body in LogReader(path) if kind == "gpu"]
    assert reading["at_ns"] > max(record.at_ns for record in past)
