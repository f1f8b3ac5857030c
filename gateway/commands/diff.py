"""What does `shadowlane diff` do?  Lists the pairs that differ most, or shows one, arm by arm."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from analysis.index import By, Index
from analysis.pair_view import render_list, render_pair, shown
from analysis.report import to_json
from analysis.store import LogError
from analysis.text_files import texts_in
from gateway.commands.report import UnreadableError, find
from wire.plain import plain


def diff(
    log: str,
    pair: str | None,
    *,
    state_dir: Path,
    by: By = "differs",
    candidate: str | None = None,
    limit: int = 10,
    as_json: bool = False,
    out: TextIO | None = None,
) -> int:
    """Print `pair`, or where none is named the `limit` pairs with the largest figure `by`.

    Raises UnreadableError for a log, a pair or a candidate that there is not.
    """
    stream = sys.stdout if out is None else out
    try:
        path = find(log, state_dir)
        index = Index(path)
        try:
            index.catch_up()
            if pair is not None:
                record = index.pair(pair)
                if record is None:
                    listed = f"`shadowlane diff {log}` lists some"
                    raise UnreadableError(f"{log} has no pair {pair!r}: {listed}")
                texts = texts_in(path.parent, pair)
                told = (
                    to_json(shown(record, texts)).decode() + "\n"
                    if as_json
                    else plain(render_pair(record, texts))
                )
                stream.write(told)
                return 0
            if candidate is not None and candidate not in index.spec.candidates:
                there = ", ".join(index.spec.candidates)
                raise UnreadableError(f"{log} has no candidate {candidate!r}; there are: {there}")
            found = index.most(by, limit, candidate)
        finally:
            index.close()
    except (LogError, OSError) as error:
        raise UnreadableError(str(error)) from error
    listed = to_json([asdict(one) for one in found]).decode() + "\n"
    stream.write(listed if as_json else plain(render_list(found, by)))
    return 0
