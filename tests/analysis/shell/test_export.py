"""A log as a table: a row for each answer, the same in every form, what is missing left empty."""

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest
from msgspec.structs import replace as changed

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


def test_what_is_told_of_pairs_later_is_in_their_rows_and_the_control_is_compared_with_itself(
    tmp_path: Path,
) -> None:
    spec = replace(SPEC, similarity="letters", golden=True)
    first, last = RECORDS[0], RECORDS[-1]
    scored = changed(
        first, phase="scored", id="s", outputs={"control": {"kl_k3": 0.1}, "quick": {"kl_k3": 0.2}}
    )
    chosen = altered(last, "quick", more_reasons=("stop", None, "length"))
    path = tmp_path / NAME
    writer = LogWriter(path, Header(1, spec))
    writer.open()
    for record in (first, scored, chosen):
        writer.append("pair", record)
    said: dict[str, object] = {"why": None, "dropped": {}}
    writer.append("similarity", {"id": first.id, "scores": {"control": 0.75}, **said})
    writer.append("similarity", {"id": last.id, "scores": {"quick": 0.5}, **said})
    writer.append("similarity", {"scores": {}, "why": "it is silent", "dropped": {}})
    marks = {"control": True, "quick": False, "same": None}
    writer.append("golden", {"id": "set/1", "pair": last.id, "passed": marks})
    writer.append("golden", {"id": "set/2", "passed": marks})  # as logs were before they named the pair
    writer.close()
    for ending in ("jsonl", "parquet"):
        export(path, tmp_path / f"pairs.{ending}")
    shown = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert pyarrow.parquet.read_table(tmp_path / "pairs.parquet").to_pylist() == shown

    def column(name: str, id: str) -> dict[str, object]:
        return {f"{r['arm']} {r['twin']}": r[name] for r in shown if r["id"] == id and r[name] is not None}

    assert column("output_kl_k3", "s") == {"control 1": 0.1, "quick 0": 0.2}
    assert column("output_embedding_similarity", first.id) == {"control 1": 0.75}
    assert column("output_embedding_similarity", last.id) == {"quick 0": 0.5}
    assert column("golden_passed", last.id) == {"control 0": True, "quick 0": False}
    assert set(column("golden", last.id).values()) == {"set/1"} and column("golden", first.id) == {}
    assert column("more_reasons", last.id) == {"quick 0": "stop,,length"}


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
