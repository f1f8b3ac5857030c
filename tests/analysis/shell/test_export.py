"""A log as a table: a row for each answer, the same in every form, what is missing left empty."""

import csv
import json
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from analysis.export import ExportError, columns, export
from analysis.store import NAME, Header, LogWriter
from gateway.cli import main
from tests.analysis.trials import SPEC, altered, records

RECORDS = [
    altered(record, "quick", fault="timeout", ttft_ms=None) if n % 7 == 0 else record
    for n, record in enumerate(records(20))
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "state" / "kv" / NAME
    writer = LogWriter(path, Header(1, SPEC))
    writer.open()
    for record in RECORDS:
        writer.append("pair", record)
    writer.close()
    return path


def test_every_answer_is_a_row_with_its_pairs_values_and_its_scores(log: Path, tmp_path: Path) -> None:
    assert export(log, tmp_path / "pairs.jsonl") == sum(len(r.answers) + 1 for r in RECORDS)
    rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    last = [row for row in rows if row["id"] == RECORDS[-1].id]
    assert [row["arm"] for row in last] == [*(a.arm for a in RECORDS[-1].answers), "production"]
    scored = {row["arm"]: row["output_exact_match"] for row in last}
    assert scored == {"control": None, "quick": 1.0, "same": 1.0, "slow": 1.0, "production": None}
    first = [row for row in rows if row["id"] == RECORDS[0].id and row["output_exact_match"] is not None]
    assert [(row["arm"], row["twin"]) for row in first] == [("control", 1)]  # the floor
    assert any(row["fault"] == "timeout" and row["ttft_ms"] is None for row in rows)


def test_every_form_says_the_same(log: Path, tmp_path: Path) -> None:
    for ending in ("jsonl", "csv", "parquet"):
        export(log, tmp_path / f"pairs.{ending}")
    lines = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    table = pyarrow.parquet.read_table(tmp_path / "pairs.parquet")
    assert table.to_pylist() == lines and table.column_names == columns()
    with (tmp_path / "pairs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["ttft_ms"] for row in rows] == [
        "" if r["ttft_ms"] is None else str(r["ttft_ms"]) for r in lines
    ]


def test_what_cannot_be_written_is_told_with_what_would_do(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ExportError, match=r"end the name in \.jsonl, \.csv, \.parquet"):
        export(log, tmp_path / "pairs.xlsx")
    with pytest.raises(ExportError, match="cannot write"):
        export(log, tmp_path / "none" / "pairs.csv")
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as where it is not installed
    with pytest.raises(ExportError, match="pip install pyarrow, or"):
        export(log, tmp_path / "pairs.parquet")


def test_the_command_says_how_many_and_where(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, to = str(tmp_path / "state"), tmp_path / "pairs.csv"
    assert main(["export", "kv", "--to", str(to), "--state-dir", state]) == 0
    assert capsys.readouterr().out == f"{sum(len(r.answers) + 1 for r in RECORDS)} answers: {to}\n"
    assert main(["export", "kv", "--to", "pairs.xlsx", "--state-dir", state]) == 1
    assert "end the name in" in capsys.readouterr().err
