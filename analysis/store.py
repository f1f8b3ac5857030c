"""How are an experiment's records kept?  In an append-only log of checksummed frames, one write a record.

The first record is `experiment`: format, epoch, spec, and the names of the values of a pair.  Then come
`pair` (measures, no text), `calibrated`, `load`, `gpu`, `engine`, `unforced`, `unscored`, `golden`,
`similarity`, `left` and `books`.
What a kill or a power cut left unfinished at the end is a torn tail: readers stop before it, the writer cuts
it off.  A record in between that is damaged is left out, and said to be.
"""

import fcntl
import os
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from analysis.frames import MARK, Damage, Frames, framed
from analysis.measure import PairRecord
from analysis.packed import NAMES, Names, Read, packed, reader_of
from analysis.spec import ExperimentSpec, RaceSpec

FORMAT = 2
NAME = "log.msgpack"
_FORMAT_1 = b"\x92\xaaexperiment"
_decode = msgspec.msgpack.Decoder().decode
_encode = msgspec.msgpack.Encoder().encode


class LogError(Exception):
    """A log cannot be used; the one-line text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a log is of."""

    epoch: int
    spec: ExperimentSpec


class LogReader:
    """The records of one log, in order: (kind, body), a pair's body being a PairRecord.

    Raises LogError when the file is no log of this format, or where a record is none that this version
    knows.  Once read to the end, `end` is where the last whole record ends, `torn_bytes` what follows it, and
    `damage` what was left out in between.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise LogError(f"{path} cannot be read: {error.strerror}; give an experiment's {NAME}") from error
        self._frames = Frames(self._file)
        self.size = os.fstat(self._file.fileno()).st_size
        try:
            self.header, self.names, self._read_pair = self._read_header()
        except LogError:
            self._file.close()
            raise

    @property
    def end(self) -> int:
        """Where the last whole record so far ends."""
        return self._frames.end

    @property
    def damage(self) -> list[Damage]:
        """What was left out so far, for it is no record, though records follow."""
        return self._frames.damage

    @property
    def torn_bytes(self) -> int:
        """Bytes after the last whole record."""
        return self.size - self.end

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        number = 1
        try:
            for kind, body in self._frames:
                number += 1
                yield kind, self._read_pair(body) if kind == "pair" else _decode(body)
            self.size = max(self.end, os.fstat(self._file.fileno()).st_size)
        except (msgspec.DecodeError, ValueError) as error:
            raise LogError(
                f"record {number} of {self._path} is not one of this Shadowlane: {error}"
            ) from error
        finally:
            self._file.close()

    def _read_header(self) -> tuple[Header, Names, Read]:
        foreign = f"{self._path} is not a Shadowlane log: give the {NAME} in <state_dir>/<experiment>/"
        first = self._frames.take()
        if first is None or self._frames.damage:
            raise LogError(self._why_no_header(foreign))
        kind, body = first
        try:
            values = _decode(body)
        except msgspec.DecodeError as error:
            raise LogError(foreign) from error
        if kind != "experiment" or not isinstance(values, dict) or "format" not in values:
            raise LogError(foreign)
        if values["format"] != FORMAT:
            raise LogError(self._other_format(values["format"]))
        try:
            header = Header(int(values["epoch"]), _spec(values["spec"]))
            return header, values["names"], reader_of(values["names"])
        except (KeyError, TypeError, ValueError) as error:
            raise LogError(
                f"{self._path} has an experiment this Shadowlane does not know: {error}"
            ) from error

    def _why_no_header(self, foreign: str) -> str:
        with self._path.open("rb") as again:
            begin = again.read(len(_FORMAT_1))
        if begin == _FORMAT_1:
            return self._other_format(1)
        if self._frames.damage:
            return f"{self._path} is damaged at its beginning: move it aside, or restore a copy of it"
        if begin.strip(b"\0") and not begin.startswith(MARK[: len(begin)]):
            return foreign
        return f"{self._path} holds no whole record: run the experiment again, or give another log"

    def _other_format(self, found: object) -> str:
        reads = f"this Shadowlane reads format {FORMAT}"
        return f"{self._path} has format {found}, {reads}: use the version that wrote it"


def _spec(body: Mapping[str, Any]) -> ExperimentSpec:
    known = {field.name for field in fields(ExperimentSpec)}
    if unknown := sorted(set(body) - known):
        raise ValueError(f"unknown setting {unknown[0]!r}")
    lists = {name: tuple(body.get(name, ())) for name in ("candidates", "engines")}
    race = None if body.get("race") is None else RaceSpec(**body["race"])
    return ExperimentSpec(**{**body, **lists, "race": race})


class LogWriter:
    """Appends records to one log; each reaches the operating system before `append` returns, or waits.

    A full disk never raises: records wait in memory, up to `backlog_bytes`, and are written in order once
    there is room; beyond that the new ones are lost and counted. Then a replay no longer equals the live
    ranking, and `lost` says so.
    """

    def __init__(self, path: Path, header: Header, *, backlog_bytes: int = 8 << 20) -> None:
        self._path = path
        self._backlog_bytes = backlog_bytes
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._fd = -1
        self._size = 0  # how much of the file is whole records; also what an opening that failed must keep
        self.written = 0
        self.lost = 0
        self.error: str | None = None
        begin = {"format": FORMAT, "epoch": header.epoch, "spec": asdict(header.spec), "names": NAMES}
        self._header = framed("experiment", _encode(begin))

    @property
    def size(self) -> int:
        """How long the log is, with what waits to be written."""
        return self._size + self._waiting_bytes

    @property
    def waiting(self) -> int:
        """Records not yet written."""
        return len(self._waiting)

    def open(self, keep_bytes: int = 0) -> None:
        """Open for appending after the first `keep_bytes`; what follows them is cut off.

        Raises LogError when another process writes this log.
        """
        self._size = keep_bytes
        try:
            self._open()
        except OSError as error:
            self.error = error.strerror or str(error)

    def append(self, kind: str, body: Any) -> None:
        """Write one record."""
        record = framed(kind, packed(body) if isinstance(body, PairRecord) else _encode(body))
        if self._waiting and self._waiting_bytes + len(record) > self._backlog_bytes:
            self.lost += 1
            return
        self._waiting.append(record)
        self._waiting_bytes += len(record)
        self.flush()

    def flush(self) -> None:
        """Write what waits, as far as the disk takes it."""
        try:
            if self._fd < 0:
                self._open()
            while self._waiting:
                self._write(self._waiting[0])
                self._waiting_bytes -= len(self._waiting.popleft())
                self.written += 1
            self.error = None
        except (OSError, LogError) as error:
            self.error = getattr(error, "strerror", None) or str(error)

    def close(self) -> None:
        """Write what waits and let go of the file."""
        self.flush()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, self._size)
            self._fd = fd
            if self._size == 0:
                self._write(self._header)
        except OSError as error:
            self._fd = -1
            os.close(fd)
            if isinstance(error, BlockingIOError):
                text = f"{self._path} is being written by another Shadowlane: set another state_dir"
                raise LogError(text) from error
            raise

    def _write(self, record: bytes) -> None:
        """All of `record` or nothing of it."""
        done = 0
        try:
            while done < len(record):
                done += os.write(self._fd, memoryview(record)[done:])
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += done


@dataclass(frozen=True, slots=True)
class Opened:
    """A log ready to be continued: its epoch, the past to replay (None: none), what had to be done."""

    epoch: int
    past: LogReader | None
    notices: tuple[str, ...]


def open_log(path: Path, spec: ExperimentSpec) -> Opened:
    """How to go on: continue a log of the same `spec`, or put another one aside and start a new epoch."""
    if not path.exists():
        return Opened(_last_epoch(path) + 1, None, ())
    try:
        past = LogReader(path)
    except LogError as error:
        if path.stat().st_size == 0:
            return Opened(_last_epoch(path) + 1, None, ())
        return Opened(*put_aside(path, "unreadable", str(error)))
    if past.header.spec == spec:
        return Opened(past.header.epoch, past, ())
    past.close()
    return Opened(*put_aside(path, f"epoch-{past.header.epoch}", "the experiment's settings have changed"))


def is_written(path: Path) -> bool:
    """Whether a process writes this log now."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def put_aside(path: Path, mark: str, why: str) -> tuple[int, None, tuple[str, ...]]:
    """Rename the log so that nothing is lost; the number of the epoch that starts instead, and a notice."""
    last = _last_epoch(path)
    target = path.with_name(f"log.{mark}.msgpack")
    n = 1
    while target.exists():
        n += 1
        target = path.with_name(f"log.{mark}-{n}.msgpack")
    path.rename(target)
    return last + 1, None, (f"{why}: kept as {target.name}, epoch {last + 1} starts",)


def _last_epoch(path: Path) -> int:
    """The highest epoch among the logs in this log's folder, 0 where there is none."""
    last = 0
    for log in sorted(path.parent.glob("log*.msgpack")):
        try:
            past = LogReader(log)
        except LogError:
            continue
        past.close()
        last = max(last, past.header.epoch)
    return last
