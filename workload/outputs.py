"""May a command write where it was told to?  Asked before anything is read or sent."""

from collections.abc import Iterable, Sequence
from pathlib import Path


def writable(files: Iterable[Path | None], *, read: Sequence[Path] = ()) -> None:
    """ValueError where one of `files` is in a folder that is not there, is a folder itself, is one that is
    `read` (a file, or one in a folder), or is another's: each would be lost.
    """
    named: list[Path] = []
    for file in files:
        if file is None:
            continue
        if not file.absolute().parent.is_dir():
            raise ValueError(f"{file}: there is no folder {file.absolute().parent}")
        if file.is_dir():
            raise ValueError(f"{file} is a folder; name a file in it")
        if any(_is_one_of(file, source) for source in read):
            raise ValueError(f"{file} is read, and would be overwritten: name another file")
        if any(file.absolute() == other.absolute() for other in named):
            raise ValueError(f"{file} is named twice: name a file for each")
        named.append(file)


def _is_one_of(file: Path, source: Path) -> bool:
    """Whether a file that is there is `source` (by whatever name), or stands in that folder."""
    if not file.exists() or not source.exists():
        return False
    return source.samefile(file) or (source.is_dir() and source.samefile(file.resolve().parent))
