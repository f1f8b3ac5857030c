"""What does `shadowlane experiment forget` do?  Takes what was said to requests out of kept texts."""

import sys
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from analysis.text_files import FILES, WrittenError, forget_at_rest
from gateway.commands.experiment import NotDone, asked, base_of, place_of


def forget(
    name: str | None,
    ids: Sequence[str],
    *,
    every: bool,
    admin: str,
    state_dir: Path | None = None,
    out: TextIO | None = None,
) -> int:
    """Forget these requests, in one experiment or in `every` one; what running ones have, by `admin`.

    With `state_dir`: in the folders there, of experiments that nobody runs.  Raises NotDone.
    """
    stream = sys.stdout if out is None else out
    if (name is None) is not every:
        raise NotDone("say in which experiment to forget, or --all, and not both")
    if not any(ids):
        raise NotDone("say which requests: --id, by their x-request-id")
    found = _asked(name, ids, admin) if state_dir is None else _at_rest(name, ids, state_dir)
    if not found:
        stream.write("no experiment has texts that were kept: there is nothing to forget\n")
    for each, pairs in found.items():
        stream.write(f"{each}: texts of {pairs} pair{'s' if pairs != 1 else ''} forgotten\n")
    return 0


def _asked(name: str | None, ids: Sequence[str], admin: str) -> Mapping[str, int]:
    query = urllib.parse.urlencode([("id", id) for id in ids])
    done = asked(f"{base_of(admin)}/{place_of(name)}/forget?{query}", "POST")
    found: Mapping[str, int] = done["forgotten"]
    return found


def _at_rest(name: str | None, ids: Sequence[str], state_dir: Path) -> Mapping[str, int]:
    if not state_dir.is_dir():
        raise NotDone(f"there is no folder {state_dir}: --state-dir says where experiments' logs are")
    if name is None:
        folders = sorted({path.parent for file in FILES for path in state_dir.glob(f"*/{file}")})
    else:
        folders = [state_dir / name]
    if name is not None and not folders[0].is_dir():
        raise NotDone(f"there is no experiment {name!r} in {state_dir}")
    try:
        return {folder.name: forget_at_rest(folder, ids) for folder in folders}
    except WrittenError as error:
        raise NotDone(f"{error}: ask it, by its admin address (--admin, without --state-dir)") from error
    except OSError as error:
        raise NotDone(f"{error.filename or state_dir}: {error.strerror or error}") from error
