"""What does `shadowlane report` do?  Finds an experiment's log, replays it, prints or writes the ranking."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from analysis.cost.presets import parse_slo
from analysis.report import render_html, render_text, to_json
from analysis.report import report as replayed
from analysis.resources import OtherArmsError
from analysis.store import NAME, LogError
from gateway.processes.prices import priced
from wire.plain import plain
from workload.outputs import writable


class UnreadableError(Exception):
    """There is no such log, or it cannot be used; the text says what to do."""


class WrongError(ValueError):
    """A flag says what cannot be; the one-line text says what would do."""


def report(
    log: str,
    *,
    state_dir: Path,
    html: str | None = None,
    as_json: bool = False,
    prices: str | None = None,
    slo: str | None = None,
    also: Sequence[str] = (),
    out: TextIO | None = None,
) -> int:
    """Report on `log`: a log file, its folder, or the name of an experiment under `state_dir`.

    Prints text or, `as_json`, the ranking; `html` also writes a page.  `prices` is a price file, `slo` bounds
    in place of the experiment's, `also` logs of the same arms under other loads.  Gives the exit status;
    WrongError for one of these.
    """
    stream = sys.stdout if out is None else out
    try:
        bounds = None if slo is None else parse_slo(slo)
        costs = None if prices is None else priced(Path(prices))
    except ValueError as error:
        raise WrongError(str(error)) from error
    try:
        loads = [find(one, state_dir) for one in also]
        path = find(log, state_dir)
        must_not_read(html, [path, *loads, *([] if prices is None else [Path(prices)])])
        ranking = replayed(path, costs, bounds, loads)
    except OtherArmsError as error:
        raise WrongError(str(error)) from error
    except LogError as error:
        raise UnreadableError(str(error)) from error
    stream.write(to_json(ranking).decode() if as_json else plain(render_text(ranking)).rstrip("\n"))
    stream.write("\n")
    if html is not None:
        try:
            Path(html).write_text(plain(render_html(ranking)), encoding="utf-8")
        except OSError as error:
            raise UnreadableError(f"cannot write {html}: {error.strerror}") from error
        if not as_json:
            stream.write(f"Page: {Path(html).absolute()}\n")
    return 0


def must_not_read(page: str | None, read: Sequence[Path]) -> None:
    """WrongError where a page is to be written over one of the files that are read for it."""
    try:
        writable([None if page is None else Path(page)], read=read)
    except ValueError as error:
        raise WrongError(f"--html: {error}") from error


def find(log: str, state_dir: Path) -> Path:
    """The log file meant by `log`.  UnreadableError names the experiments that there are."""
    for path in (Path(log), Path(log) / NAME, state_dir / log / NAME):
        if path.is_file():
            return path
    known = sorted(path.parent.name for path in state_dir.glob(f"*/{NAME}"))
    there = f"there are: {', '.join(known)}" if known else "no experiment has written a log there"
    raise UnreadableError(f"no log {log!r}, nor an experiment of that name in {state_dir}: {there}")
