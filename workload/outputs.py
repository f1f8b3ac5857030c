"""May a command write where it was told to?  Asked before anything is read or sent."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from workload.forget import RECORDED
from workload.formats import is_lines

_BESIDE = re.compile(r"\d{8}T\d{6}Z\.json")  # what says what a recording's lines mean


def writable(files: Iterable[Path | None], *, read: Sequence[Path] = ()) -> None:
    """ValueError where one of `files` is in a folder that is not there, is a folder itself, is one that is
    `read`, or is another's: each would be lost.  Also where it would be taken for traffic that was recorded:
    it stands in a folder that is read, or is a file of rows among a recording's.
    """
    named: list[Path] = []
    for file in files:
        if file is None:
            continue
        if not file.absolute().parent.is_dir():
            raise ValueError(f"{file}: there is no folder {file.absolute().parent}")
        if file.is_dir():
            raise ValueError(f"{file} is a folder; name a file in it")
        for source in read:
            if _is_one_of(file, source):
                raise ValueError(f"{file} is read, and would be overwritten: name another file")
            if _stands_in(file, source):
                raise ValueError(f"{file} would stand in {source}, which is read: name a file elsewhere")
        if is_lines(file) and (folder := _recorded_into(file)) is not None:
            raise ValueError(
                f"{file} would be taken for part of the recording in {folder}: name one elsewhere"
            )
        if any(file.absolute() == other.absolute() for other in named):
            raise ValueError(f"{file} is named twice: name a file for each")
        named.append(file)


def _is_one_of(file: Path, source: Path) -> bool:
    """Whether a file that is there is `source` (by whatever name), or stands in that folder."""
    if not file.exists() or not source.exists():
        return False
    return source.samefile(file) or _stands_in(file, source)


def _stands_in(file: Path, folder: Path) -> bool:
    return folder.is_dir() and any(folder.samefile(one) for one in _folders(file))


def _recorded_into(file: Path) -> Path | None:
    """The folder of this file that holds a recording, if one does."""
    for folder in _folders(file):
        if any(RECORDED.fullmatch(one.name) or _BESIDE.fullmatch(one.name) for one in folder.iterdir()):
            return folder
    return None


def _folders(file: Path) -> list[Path]:
    """Where its name stands, and where what is written goes, if that is a link."""
    return [folder for folder in (file.absolute().parent, file.resolve().parent) if folder.is_dir()]
