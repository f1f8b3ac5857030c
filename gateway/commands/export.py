"""What does `shadowlane export` do?  Writes an experiment's pairs as a table."""

import sys
from pathlib import Path
from typing import TextIO

from analysis.export import ExportError, export
from analysis.store import LogError
from gateway.commands.report import UnreadableError, find


def exported(log: str, to: str, *, state_dir: Path, out: TextIO | None = None) -> int:
    """Write the pairs of `log` to the file `to`; gives the exit status.  Raises UnreadableError."""
    try:
        rows = export(find(log, state_dir), Path(to))
    except (LogError, ExportError) as error:
        raise UnreadableError(str(error)) from error
    (sys.stdout if out is None else out).write(f"{rows} answers: {Path(to).absolute()}\n")
    return 0
