"""Where does what arms said lie, and how is it taken out again?  Two files beside an experiment's log.

Both are made of frames (`analysis.frames`) and readable by their owner alone: the one that is written, and
the one before it.  Whoever has the experiment's log open changes them, and nobody else does.
"""

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import msgspec

from analysis.frames import Frames, framed
from analysis.store import NAME as LOG
from analysis.store import is_written

NAME: Final = "texts.msgpack"
BEFORE: Final = "texts.before.msgpack"
HALF: Final = ".texts.half"  # a file being written anew, or what a kill has left of one
FILES: Final = (BEFORE, NAME)
_KIND: Final = "texts"
_NUMBERED: Final = re.compile(r"~\d+(~[a-z]+)?\Z")

Said = dict[tuple[str, int], tuple[str, ...]]  # what each choice said, by arm and twin


class Record(msgspec.Struct, array_like=True):
    """What the answers of one pair said, by arm and twin, and when that was written down."""

    id: str
    answers: list[tuple[str, int, list[str]]]
    at_s: float = 0.0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode


class WrittenError(Exception):
    """A running Shadowlane has these files: it is the one to ask."""


def packed(record: Record) -> bytes:
    """A record as it is appended.  ValueError when it is too large."""
    return framed(_KIND, _encode(record))


def records(path: Path) -> Iterator[Record]:
    """Those of a file that are whole, in order; none where there is no file.  Raises OSError."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for kind, body in Frames(file):
            if (record := _read(kind, body)) is not None:
                yield record


def _read(kind: str, body: bytes) -> Record | None:
    if kind != _KIND:
        return None
    try:
        return _decode(body)
    except msgspec.MsgspecError:
        return None


def texts_in(folder: Path, id: str) -> Said | None:
    """What the answers of pair `id` said; None where it was not kept.  OSError when a file cannot be read."""
    found: Said | None = None
    for name in FILES:
        for record in records(folder / name):
            if record.id == id:
                found = {(arm, twin): tuple(texts) for arm, twin, texts in record.answers}
    return found


def begun_s(path: Path) -> float | None:
    """When the oldest text of a file was written down; None where it holds none.  Raises OSError."""
    first = next(records(path), None)
    return None if first is None else first.at_s


def is_of(id: str, requests: Collection[str]) -> bool:
    """Whether a pair is of one of these requests: where one was sent more than once pairs are numbered, and
    those of a phase of their own are named by it, too."""
    return id in requests or _NUMBERED.sub("", id) in requests


def forget_in(folder: Path, requests: Collection[str]) -> int:
    """Take out what was said to these requests; how many pairs that were.  Raises OSError.

    What is damaged may be what is to be forgotten, and goes with it.  A file is written anew beside itself
    and then takes its own place: a kill leaves the old one or the new one, and `sweep` removes a half one.
    """
    gone = 0
    for name in FILES:
        path = folder / name
        if not path.exists():
            continue
        with path.open("rb") as file:
            frames, hits, is_whole = Frames(file), 0, True
            for frame in frames:
                record = _read(*frame)
                is_whole &= record is not None
                hits += record is not None and is_of(record.id, requests)
            is_whole &= not frames.damage and frames.end == os.fstat(file.fileno()).st_size
            if hits or not is_whole:
                file.seek(0)
                _write_anew(path, Frames(file), requests)
        gone += hits
    return gone


def _write_anew(path: Path, frames: Frames, without: Collection[str]) -> None:
    half = path.with_name(HALF)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        for kind, body in frames:
            record = _read(kind, body)
            if record is not None and not is_of(record.id, without):
                file.write(framed(kind, body))
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def sweep(folder: Path) -> None:
    """Remove what a kill has left of a file that was written anew.  Raises OSError."""
    (folder / HALF).unlink(missing_ok=True)


def forget_others(state_dir: Path, names: Collection[str]) -> list[str]:
    """Delete the texts of all experiments but `names`: those that are gone, unless another process has them.

    Gives the names of those whose texts went, and raises OSError where some cannot be deleted.
    """
    folders = {path.parent for name in (*FILES, HALF) for path in state_dir.glob(f"*/{name}")}
    gone = sorted(folder for folder in folders if folder.name not in names and not is_written(folder / LOG))
    for folder in gone:
        for name in (*FILES, HALF):
            (folder / name).unlink(missing_ok=True)
    return [folder.name for folder in gone]


def forget_at_rest(folder: Path, requests: Collection[str]) -> int:
    """`forget_in`, for an experiment that nobody runs.  Raises WrittenError where one does, and OSError."""
    if is_written(folder / LOG):
        raise WrittenError(f"{folder.name} is running")
    sweep(folder)
    return forget_in(folder, requests)
