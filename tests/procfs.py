"""What a process of this machine has, read from /proc: its open files and its children."""

import os
from pathlib import Path


def open_files(pid: int | str = "self") -> set[tuple[str, str]]:
    """The descriptors and what they lead to; one closed after it was listed (the listing's own is) is none.

    In this process two readings are subtracted, not counted: an earlier test's may be collected between.
    """
    found = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.add((number, os.readlink(f"/proc/{pid}/fd/{number}")))
        except FileNotFoundError:
            continue
    return found


def children(pid: int) -> list[tuple[int, list[str]]]:
    """Child processes and their command lines' words; one that ended after it was listed is none."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        found.append((int(child), words))
    return found
