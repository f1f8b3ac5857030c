"""Which pairs differ most, and where is one in the log?  An SQLite index, made from the log, never the truth.

It lies beside the log and is brought up to date by reading what was appended since; of another log, or when
it is lost, it is made anew.  Where it cannot be written it is made in memory.
"""

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from math import log
from pathlib import Path
from typing import Any, Final, Literal

from analysis.frames import Frames
from analysis.measure import AnswerMeasure, PairRecord
from analysis.packed import reader_of
from analysis.store import LogError, LogReader

NAME: Final = "index.sqlite"
By = Literal["differs", "ttft", "tpot", "e2e"]
BY: Final[tuple[By, ...]] = ("differs", "ttft", "tpot", "e2e")
_VERSION: Final = 1
_MEMORY: Final = ":memory:"
_BATCH: Final = 20_000
_CACHE_KB: Final = 64 << 10
_MANY_BYTES: Final = 32 << 20
_SCHEMA: Final = """
CREATE TABLE about (version INTEGER, log TEXT, end INTEGER);
CREATE TABLE pairs (
  id TEXT, candidate TEXT, at_ns INTEGER, place INTEGER, phase TEXT, mark TEXT,
  differs REAL, ttft REAL, tpot REAL, e2e REAL, control_fault TEXT, fault TEXT
);
"""
_ORDERS: Final = {"by_id": "id", **{f"by_{by}": f"candidate, {by}" for by in BY}}


@dataclass(frozen=True, slots=True)
class Found:
    """One pair of control and a candidate: the share of the longer answer after they part, and log ratios of
    latencies; None where there is none."""

    id: str
    candidate: str
    at_ns: int
    place: int
    phase: str
    mark: str | None
    differs: float | None
    ttft: float | None
    tpot: float | None
    e2e: float | None
    control_fault: str | None
    fault: str | None


class Index:
    """The index of one log.  LogError where the log cannot be read.

    Where more than `many_bytes` are to be taken in, and more than was before, all is put in order at the end.
    """

    def __init__(self, path: Path, *, many_bytes: int = _MANY_BYTES) -> None:
        self._path = path
        self._many_bytes = many_bytes
        reader = LogReader(path)
        self._begin, self._names = reader.end, reader.names
        self.spec = reader.header.spec
        reader.close()
        with path.open("rb") as file:
            self._log = sha256(file.read(self._begin)).hexdigest()
        self._db = self._open()

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    @property
    def end(self) -> int:
        """As far as this place the log is in the index."""
        (end,) = self._db.execute("SELECT end FROM about").fetchone()
        return int(end)

    def catch_up(self) -> None:
        """Take in what the log has more; where another process does so too, one of them goes on.

        Five B-trees that do not fit the cache take the longer to grow the larger they are: where there is
        much to take in they are made at the end, each by one sort.  Until then queries are slow, and right.
        """
        read = reader_of(self._names)
        end = self.end
        if self._path.stat().st_size - end > max(self._many_bytes, end):
            for order in _ORDERS:
                self._db.execute(f"DROP INDEX IF EXISTS {order}")
        with self._path.open("rb") as file:
            frames = Frames(file, end)
            rows: list[tuple[Any, ...]] = []
            for kind, body in frames:
                if kind == "pair":
                    rows.extend(_rows(read(body), frames.at))
                if len(rows) >= _BATCH:
                    if not self._keep(rows, end, frames.end):
                        return
                    rows, end = [], frames.end
            if not self._keep(rows, end, frames.end):
                return
        for order, columns in _ORDERS.items():
            self._db.execute(f"CREATE INDEX IF NOT EXISTS {order} ON pairs ({columns})")

    def most(self, by: By, limit: int, candidate: str | None = None) -> list[Found]:
        """The pairs with the largest figure, the largest first; judged ones only."""
        names = self.spec.candidates if candidate is None else (candidate,)
        found: list[Found] = []
        for name in names:
            rows = self._db.execute(
                f"SELECT * FROM pairs WHERE candidate = ? AND {by} IS NOT NULL AND phase != 'calibration'"
                f" AND mark IS NULL ORDER BY {by} DESC LIMIT ?",
                (name, limit),
            )
            found += [Found(*row) for row in rows]
        return sorted(found, key=lambda one: (-(getattr(one, by)), one.id, one.candidate))[:limit]

    def pair(self, id: str) -> PairRecord | None:
        """The record of one pair, as the log has it; None when there is none."""
        row = self._db.execute("SELECT place FROM pairs WHERE id = ? LIMIT 1", (id,)).fetchone()
        if row is None:
            return None
        with self._path.open("rb") as file:
            record = Frames(file, row[0]).take()
        if record is None or record[0] != "pair":
            raise LogError(f"{self._path} has no pair at byte {row[0]}, as its index says: remove {NAME}")
        return reader_of(self._names)(record[1])

    def _open(self) -> sqlite3.Connection:
        place = self._path.with_name(f"{self._path.stem}.{NAME}")
        try:
            kept = _connected(str(place))
            if self._fits(kept):
                return kept
            kept.close()
            place.unlink(missing_ok=True)
            return self._made(str(place))
        except (sqlite3.Error, OSError):
            return self._made(_MEMORY)

    def _fits(self, db: sqlite3.Connection) -> bool:
        try:
            row = db.execute("SELECT version, log, end FROM about").fetchone()
        except sqlite3.Error:
            return False
        return row is not None and row[:2] == (_VERSION, self._log) and row[2] <= self._path.stat().st_size

    def _made(self, place: str) -> sqlite3.Connection:
        db = _connected(place)
        try:
            with db:
                db.executescript(_SCHEMA)
                db.execute("INSERT INTO about VALUES (?, ?, ?)", (_VERSION, self._log, self._begin))
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _keep(self, rows: list[tuple[Any, ...]], begin: int, end: int) -> bool:
        """Take in what lies between two places of the log; False where another process has done it."""
        with self._db:
            moved = self._db.execute("UPDATE about SET end = ? WHERE end = ?", (end, begin))
            if moved.rowcount == 0:
                return False
            self._db.executemany(f"INSERT INTO pairs VALUES ({', '.join('?' * 12)})", rows)
        return True


def _connected(place: str) -> sqlite3.Connection:
    if place != _MEMORY:
        # SQLite itself would take the umask's mode; its journals have that of the file.  One that is there is
        # not opened but by SQLite: to close it would undo the locks that another connection has on it.
        try:
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            os.chmod(place, 0o600)
    db = sqlite3.connect(place, timeout=10.0)
    try:
        db.execute("PRAGMA synchronous = OFF")  # what is lost is made again
        db.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
    except sqlite3.Error:
        db.close()
        raise
    return db


def _rows(record: PairRecord, place: int) -> Iterator[tuple[Any, ...]]:
    ours = record.answer("control")
    calibrates = record.phase == "calibration"
    for theirs in record.answers:
        if ours is None or theirs is ours or theirs.twin != int(calibrates):
            continue
        yield (
            record.id,
            theirs.arm,
            record.at_ns,
            place,
            record.phase,
            record.mark,
            record.outputs.get(theirs.arm, {}).get("first_divergence"),
            *(_log_ratio(ours, theirs, name) for name in ("ttft", "tpot", "e2e")),
            ours.fault,
            theirs.fault,
        )


def _log_ratio(
    ours: AnswerMeasure, theirs: AnswerMeasure, name: Literal["ttft", "tpot", "e2e"]
) -> float | None:
    a, b = ours.latency_ms(name), theirs.latency_ms(name)
    return log(b / a) if a and b and a > 0.0 and b > 0.0 else None
