"""How does a log become a table?  A row for each answer, as JSON Lines, CSV or Parquet.

A row has the pair's values, the answer's, and, where it was compared with the control's first, each output
score as `output_NAME`: in the calibration and the scored phase also the control's second answer.  Of a golden
request it has whether the answer is right.  Instants are ns of the gateway's monotonic clock.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol, TextIO

from analysis.measure import AnswerMeasure, PairRecord
from analysis.metrics._choose import every_metric
from analysis.similarity import NAME as SIMILARITY
from analysis.store import LogReader

FORMS: Final = (".jsonl", ".csv", ".parquet")
_PAIR: Final = ("id", "phase", "mark", "at_ns", "received_ns", "root", "turn", "duplicate", "block")
_ANSWER: Final = tuple(n for n in AnswerMeasure.__struct_fields__ if n not in ("strip", "more_reasons"))
_LATER: Final = {"more_reasons": str, "golden": str, "golden_passed": bool}
_BATCH: Final = 10_000

Row = dict[str, Any]


class ExportError(Exception):
    """It cannot be exported; the one-line text says why and what to do."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What the log tells of pairs later than the pairs themselves: by pair, and by arm."""

    similarity: dict[str, Mapping[str, float]] = field(default_factory=dict)
    golden: dict[str, tuple[str, Mapping[str, bool | None]]] = field(default_factory=dict)


class _Sheet(Protocol):
    def write(self, rows: Sequence[Row]) -> None: ...

    def close(self) -> None: ...


def columns() -> list[str]:
    """The names of the columns, in order."""
    return [*_PAIR, *_ANSWER, *_LATER, *(f"output_{name}" for name in (*every_metric(), SIMILARITY))]


def export(log: Path, to: Path) -> int:
    """Write every pair of `log` to `to`, whose ending says in which form; the number of rows.

    Raises ExportError for another ending, for Parquet without pyarrow, and where `to` cannot be written;
    LogError for the log.
    """
    sheet = _sheet(to)
    count = 0
    try:
        reader = LogReader(log)
        told = _told(log) if reader.header.spec.similarity or reader.header.spec.golden else _Told()
        rows = _rows((body for kind, body in reader if kind == "pair"), told)
        while batch := list(islice(rows, _BATCH)):
            sheet.write(batch)
            count += len(batch)
    except OSError as error:
        raise ExportError(f"cannot write {to}: {error.strerror}") from error
    finally:
        sheet.close()
    return count


def _told(log: Path) -> _Told:
    """A reading of its own, for memory: only pairs that have such are held, not all until theirs comes."""
    found = _Told()
    for kind, body in LogReader(log):
        if kind == "similarity" and body["scores"]:
            found.similarity[str(body["id"])] = body["scores"]
        elif kind == "golden" and "pair" in body:
            found.golden[str(body["pair"])] = str(body["id"]), body["passed"]
    return found


def _rows(records: Iterable[PairRecord], told: _Told) -> Iterator[Row]:
    metrics = list(every_metric())
    for record in records:
        pair = {name: getattr(record, name) for name in _PAIR}
        alike = told.similarity.get(record.id, {})
        golden, passed = told.golden.get(record.id, (None, {}))
        shown = [] if record.production is None else [record.production]
        for answer in (*record.answers, *shown):
            arm = answer.arm
            is_compared = answer.twin == int(
                arm == "control"
            )  # the control with itself, by its second answer
            scores = record.outputs.get(arm, {}) if is_compared else {}
            reasons = ",".join(reason or "" for reason in answer.more_reasons)
            yield {
                **pair,
                **{name: getattr(answer, name) for name in _ANSWER},
                "more_reasons": reasons if answer.more_reasons else None,
                "golden": golden,
                "golden_passed": passed.get(arm),
                **{f"output_{name}": scores.get(name) for name in metrics},
                f"output_{SIMILARITY}": alike.get(arm) if is_compared else None,
            }


def _sheet(to: Path) -> _Sheet:
    try:
        if to.suffix == ".jsonl":
            return _Lines(to.open("w", encoding="utf-8"))
        if to.suffix == ".csv":
            return _Csv(to.open("w", encoding="utf-8", newline=""))
        if to.suffix == ".parquet":
            return _Parquet(to)
    except OSError as error:
        raise ExportError(f"cannot write {to}: {error.strerror}") from error
    raise ExportError(f"{to}: end the name in {', '.join(FORMS)}; that says in which form")


class _Lines:
    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, rows: Sequence[Row]) -> None:
        self._file.writelines(json.dumps(row, allow_nan=False) + "\n" for row in rows)

    def close(self) -> None:
        self._file.close()


class _Csv:
    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._writer = csv.DictWriter(file, columns())
        self._writer.writeheader()

    def write(self, rows: Sequence[Row]) -> None:
        self._writer.writerows(rows)

    def close(self) -> None:
        self._file.close()


class _Parquet:
    def __init__(self, to: Path) -> None:
        self._arrow, parquet = _pyarrow()
        self._schema = _schema(self._arrow)
        self._writer = parquet.ParquetWriter(to, self._schema, compression="zstd")

    def write(self, rows: Sequence[Row]) -> None:
        self._writer.write_table(self._arrow.Table.from_pylist(list(rows), self._schema))

    def close(self) -> None:
        self._writer.close()


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        text = "Parquet needs pyarrow: pip install pyarrow, or export to .csv or .jsonl"
        raise ExportError(text) from None
    return pyarrow, pyarrow.parquet


def _schema(arrow: ModuleType) -> Any:
    kinds = {"bool": arrow.bool_(), "int": arrow.int64(), "float": arrow.float64(), "str": arrow.string()}
    fields = {**PairRecord.__annotations__, **AnswerMeasure.__annotations__, **_LATER}
    found = []
    for name in columns():
        said = fields.get(name, float)
        kind = str(said if not isinstance(said, type) else said.__name__).split(" ")[0]
        found.append((name, arrow.uint64() if name == "root" else kinds[kind]))
    return arrow.schema(found)
