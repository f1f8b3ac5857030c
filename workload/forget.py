"""How is a request taken out of recordings again, or only what was said in it?

A file is written anew beside itself and then takes its own place: whoever is killed meanwhile leaves the old
one or the new one, and what lies beside it is removed by whoever comes next.  One at a time does so in a
folder (`keeper`): where traffic is being recorded that is who records, and others leave word (`ask`).
"""

import fcntl
import json
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from workload.formats import files_of
from workload.packed import ENDINGS, Ending, Lines, Packing, TornError, read_lines
from workload.row import Row, from_line, to_line

HALF: Final = ".half"
LOCK: Final = ".lock"
RECORDED: Final = re.compile(r"\d{8}T\d{6}Z-\d{4,}\.jsonl(\.zst|\.gz)?")  # the names of recordings' files
_MOST_TURNS: Final = 1 << 60
_PIECE_BYTES: Final = 512  # of a damaged file no more than this is lost before the damage
ASKED: Final = "forget-"  # begins the names of files that ask who records: ids to forget


@dataclass(slots=True)
class Forgotten:
    """What was done: rows taken out, rows whose text was, the files that somebody writes just now, and why
    others could not be read to their end.

    Nobody can tell what is in the rest of such a file.  That of a recording is `cut` off, for it may be what
    is to be forgotten; another file is `torn`, and as it was.
    """

    rows: int = 0
    texts: int = 0
    busy: list[Path] = field(default_factory=list)
    cut: dict[Path, str] = field(default_factory=dict)
    torn: dict[Path, str] = field(default_factory=dict)


@contextmanager
def keeper(folder: Path) -> Iterator[bool]:
    """Whether nobody else keeps this folder meanwhile; then what a kill has left there is removed."""
    fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if is_ours := _locked(fd):
            for left in folder.glob(f".*{HALF}"):
                left.unlink(missing_ok=True)
        yield is_ours
    finally:
        os.close(fd)


def forget(paths: Sequence[Path], ids: AbstractSet[str]) -> Forgotten:
    """Take the requests of these ids out of files or folders, and the text out of what went on from them.

    A later turn repeats what was said before: of those that continue such a request, in whichever of these
    files, the figures stay and the text goes.  Raises OSError, TornError and TraceError.
    """
    files = [file for path in paths for file in files_of(path)]
    wordless = _followers(files, ids)

    def change(row: Row) -> Row | None:
        if row.id in ids:
            return None
        return _without_text(row) if row.id in wordless else row

    return _changed(files, change)


def strip(files: Iterable[Path]) -> Forgotten:
    """Take all text out of these files; the figures stay."""
    return _changed(files, _without_text)


def ask(folder: Path, ids: Collection[str]) -> Path:
    """Leave word for whoever records into this folder; the file is gone once it is done."""
    name = secrets.token_hex(8)
    half = folder / f".{ASKED}{name}{HALF}"
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"ids": sorted(ids)}, file)
        file.flush()
        os.fsync(file.fileno())
    asked = folder / f"{ASKED}{name}.json"
    half.replace(asked)
    return asked


def asked(folder: Path) -> dict[Path, set[str]]:
    """What `ask` left here: ids by file, which is to be removed once they are forgotten."""
    found: dict[Path, set[str]] = {}
    for file in folder.glob(f"{ASKED}*.json"):
        try:
            found[file] = {str(id) for id in json.loads(file.read_bytes())["ids"]}
        except (OSError, ValueError, KeyError, TypeError):
            continue  # it is nothing of ours
    return found


def _followers(files: Sequence[Path], ids: AbstractSet[str]) -> set[str]:
    """The ids of rows that go on from one of these: later turns of its session, and what continues them."""
    sessions: dict[str, int] = {}
    for file in files:
        for row in _readable(file):
            if row.id in ids and row.session is not None:
                sessions[row.session] = min(row.turn, sessions.get(row.session, row.turn))
    found: set[str] = set()
    for file in files:  # what continues a row was answered after it, and so stands after it
        for row in _readable(file):
            is_later = row.session is not None and row.turn > sessions.get(row.session, _MOST_TURNS)
            if row.id is not None and (is_later or row.parent in ids or row.parent in found):
                found.add(row.id)
    return found - ids


def _readable(file: Path) -> Iterator[Row]:
    """Its rows, as far as it can be read."""
    try:
        yield from _rows(file)
    except TornError:
        pass  # `_changed` says so


def _rows(file: Path, ending: Ending | None = None) -> Iterator[Row]:
    for line in read_lines(file, ending):
        if line.strip():
            try:
                yield from_line(line)
            except msgspec.MsgspecError:
                continue  # no row of ours: it has no id either


def _without_text(row: Row) -> Row:
    if row.request is None and row.answer is None:
        return row
    return msgspec.structs.replace(row, request=None, answer=None)


def _changed(files: Iterable[Path], change: Callable[[Row], Row | None]) -> Forgotten:
    done = Forgotten()
    for file in files:
        before = done.rows, done.texts
        try:
            is_same = _stays(file, change, ending := Ending())
            if is_same and not (ending.cut and RECORDED.fullmatch(file.name)):
                continue
            with _held(file) as is_ours:
                if is_ours:
                    _write_anew(file, change, done)
                elif not is_same:
                    done.busy.append(file)
        except TornError as error:
            done.torn[file] = str(error)
            done.rows, done.texts = before
    return done


def _stays(file: Path, change: Callable[[Row], Row | None], ending: Ending) -> bool:
    """Whether no row changes.  Raises TornError where that is not known, and the file no recording's."""
    try:
        return all(change(row) is row for row in _rows(file, ending))
    except TornError:
        if RECORDED.fullmatch(file.name):
            return False
        raise


@contextmanager
def _held(file: Path) -> Iterator[bool]:
    """Whether nobody records into it meanwhile."""
    fd = os.open(file, os.O_RDONLY)
    try:
        yield _locked(fd)
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_anew(file: Path, change: Callable[[Row], Row | None], done: Forgotten) -> None:
    was = file.stat()
    half = file.with_name(f".{file.name}{HALF}")
    half.unlink(missing_ok=True)
    lines = Lines(half, _packing(file))
    try:
        for line in _readable_lines(file, done):
            if not line.strip():
                continue
            try:
                row = from_line(line)
            except msgspec.MsgspecError:
                lines.add(line + b"\n")
                continue
            changed = change(row)
            done.rows += changed is None
            done.texts += changed is not None and changed is not row
            if changed is not None:
                lines.add(line + b"\n" if changed is row else to_line(changed))
        lines.close()
        os.utime(half, ns=(was.st_atime_ns, was.st_mtime_ns))  # by it the age of a file is known
        half.replace(file)
    finally:
        lines.close(ended=False)
        half.unlink(missing_ok=True)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _readable_lines(file: Path, done: Forgotten) -> Iterator[bytes]:
    """Its lines; those of a damaged recording as far as they can be read, which is then told."""
    try:
        yield from read_lines(file, piece_bytes=_PIECE_BYTES)
    except TornError as error:
        if not RECORDED.fullmatch(file.name):
            raise
        done.cut[file] = str(error)


def _packing(file: Path) -> Packing:
    endings = {ending.rpartition(".")[2]: packing for packing, ending in ENDINGS.items()}
    return endings.get(file.suffix.removeprefix("."), "none")
