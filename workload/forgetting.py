"""What `shadowlane workload forget` does: requests or text out of files, or word left for who records."""

import argparse
import time
from datetime import UTC, datetime
from pathlib import Path

from workload.forget import Forgotten, ask, forget, keeper, strip
from workload.formats import files_of
from workload.replaying import say

_DAY_S = 86_400
_LOOK_S = 0.2


def run(given: argparse.Namespace) -> int:
    """Forget, say what was forgotten, and give the exit status."""
    if bool(given.id) == given.text:
        raise ValueError("say which requests (--id), or --text for the text of all")
    if given.days is not None and not given.text:
        raise ValueError("--days goes with --text: requests are forgotten by id, however old they are")
    folders = sorted({path if path.is_dir() else path.parent for path in given.file})
    asked: list[Path] = []
    done = Forgotten()
    for folder in folders:
        there = [path for path in given.file if folder in (path, path.parent)]
        with keeper(folder) as is_ours:
            if is_ours:
                found = _stripped(there, given.days) if given.text else forget(there, set(given.id))
                done = Forgotten(
                    done.rows + found.rows,
                    done.texts + found.texts,
                    done.busy + found.busy,
                    done.cut | found.cut,
                    done.torn | found.torn,
                )
            elif given.text:
                raise ValueError(f"{folder} is being recorded into, which keeps text for record.text_keep_s")
            else:
                asked.append(ask(folder, given.id))
    if len(asked) < len(folders):
        none = ": no row that was read has such an id" if given.id and not done.rows and not done.busy else ""
        say(f"{done.rows} requests forgotten, and the text of {done.texts} others{none}")
    for file in done.busy:
        say(f"{file} is being written by another process: it is as it was")
    for why in done.cut.values():
        say(f"{why}: what could not be read after that is removed, for it may be what was to be forgotten")
    for why in done.torn.values():
        say(f"{why}: it is as it was, move it away or remove it")
    return 0 if _done(asked, given.wait) and not done.busy and not done.torn else 1


def _stripped(paths: list[Path], days: float | None) -> Forgotten:
    until_s = datetime.now(UTC).timestamp() - (0.0 if days is None else days * _DAY_S)
    files = [file for path in paths for file in files_of(path)]
    return strip(file for file in files if file.stat().st_mtime <= until_s)


def _done(asked: list[Path], wait_s: float) -> bool:
    """Wait for who records; whether it did what it was asked to."""
    deadline_s = time.monotonic() + wait_s
    while any(file.exists() for file in asked):
        if time.monotonic() > deadline_s:
            where = ", ".join(str(file.parent) for file in asked)
            say(f"{where}: who records there has not done it yet; it will once it runs")
            return False
        time.sleep(_LOOK_S)
    for file in asked:
        say(f"{file.parent}: who records there has taken out what it had; its log says how many, if any")
    return True
