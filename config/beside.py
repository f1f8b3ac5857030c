"""Which file does a relative path mean?  One written in the configuration begins at its file's folder."""

from pathlib import Path as FilePath
from typing import TypeVar

from pydantic import BaseModel

from config.complaint import Path
from config.document import Document

# Where logs are kept is told to those who read them as well, who need not know the configuration's file;
# `keys_file` is read with the settings themselves.
_ELSEWHERE = frozenset({("state_dir",), ("keys_file",)})

T = TypeVar("T")


def placed(value: T, settings: Document, file: FilePath, path: Path = ()) -> T:
    """`value`, what is at `path` of a configuration read from `file`, with such paths made absolute.

    Those of the environment and of the command line begin at the folder in which the program was started.
    No link is followed: it may be turned later.
    """
    if isinstance(value, BaseModel):
        inside = {name: getattr(value, name) for name in type(value).model_fields}
        moved = {name: placed(one, settings, file, (*path, name)) for name, one in inside.items()}
        changed = {name: one for name, one in moved.items() if one is not inside[name]}
        return value.model_copy(update=changed) if changed else value
    if isinstance(value, tuple):
        items = tuple(placed(one, settings, file, (*path, at)) for at, one in enumerate(value))
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value  # type: ignore[return-value]
    if isinstance(value, FilePath) and path not in _ELSEWHERE and not value.is_absolute():
        written = settings.origin(path)
        if written == str(file) or written.startswith(f"{file}:"):
            return file.parent.absolute() / value
    return value
