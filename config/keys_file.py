"""How the keys of `keys_file` come to stand beside those of the configuration, each with its own place."""

from pathlib import Path as FilePath
from typing import Any

from config import document
from config.complaint import Complaint, ConfigError, Path, one_of, shown

KEYS = "keys"
_FILE = "keys_file"


def add(
    settings: dict[str, Any], written: dict[str, Any], origins: dict[Path, str], beside: FilePath | None
) -> list[Complaint]:
    """Read the file that `settings` name and append its keys; complaints name that file.

    A relative path is beside the configuration's file, where there is one.
    """
    name = settings.get(_FILE)
    if not isinstance(name, str) or not name:
        return []
    path = FilePath(name) if beside is None else beside.parent / name
    try:
        read = document.read(path)
    except ConfigError as error:
        if error.complaints:
            return list(error.complaints)
        source, _, rest = str(error).partition(": expected ")
        expected, _, what = rest.partition(", found ")
        holds = "" if expected == "a configuration file" else f", and it holds {KEYS}: and the entries below"
        return [Complaint(source, (), expected, what, f"{_FILE} names it{holds}")]
    found = read.settings.get(KEYS)
    complaints = [
        Complaint(read.origin((key,)), (str(key),), one_of([KEYS]), f"the unknown key {shown(key)}")
        for key in read.settings
        if key != KEYS
    ]
    if not isinstance(found, list):
        complaints.append(Complaint(read.origin((KEYS,)), (KEYS,), "a list of keys", shown(found)))
        return complaints
    here = settings.get(KEYS) or []
    if not isinstance(here, list):
        return complaints  # which is complained about where it stands
    for target in (settings, written):
        target[KEYS] = [*here, *found]
    for at in range(len(found)):
        origins[(KEYS, len(here) + at)] = read.origin((KEYS, at))
        for place, origin in read.origins.items():
            if place[:2] == (KEYS, at):
                origins[(KEYS, len(here) + at, *place[2:])] = origin
    return complaints
