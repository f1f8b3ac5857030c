"""What is taken out of a recording while it is made?  Text that is too old, and what is to be forgotten."""

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workload.forget import Forgotten, asked, forget, keeper, strip
from workload.formats import files_of
from workload.traces import TraceError

_TEXT: Final = "text"


@dataclass(frozen=True, slots=True)
class Kept:
    """One look: rows forgotten, others whose text was, and rows whose text was too old; why files could not
    be read: of those of recordings the rest is `cut` off, others are as they were."""

    rows: int = 0
    texts: int = 0
    expired: int = 0
    cut: tuple[str, ...] = ()
    torn: tuple[str, ...] = ()


class Keeping:
    """Keeps a folder of recordings for as long as it is open; all but `asked` takes its time, for a thread.

    Text is taken out `text_keep_s` after a file's last line.
    """

    def __init__(self, folder: Path, text_keep_s: float) -> None:
        self._folder = folder
        self.text_keep_s = text_keep_s
        self._bare: set[Path] = set()  # that hold no text any more
        self._open = ExitStack()
        self._is_ours = False

    def asked(self) -> dict[Path, set[str]]:
        """What somebody wants forgotten; nothing while another process keeps this folder.  Raises OSError."""
        if not self._is_ours:
            with ExitStack() as stack:
                self._is_ours = stack.enter_context(keeper(self._folder))
                if self._is_ours:
                    self._open = stack.pop_all()
        return asked(self._folder) if self._is_ours else {}

    def look(self, wanted: Mapping[Path, AbstractSet[str]], now_s: float, began: str) -> Kept:
        """Do what is wanted and what is due; `began` names the recording that is being made.

        What is wanted stays wanted until all files could be read.  Raises OSError and TraceError.
        """
        if not self._is_ours:
            return Kept()
        ids = {id for some in wanted.values() for id in some}
        done = self._forgotten(ids) if ids else Forgotten()
        if not done.torn:
            for file in wanted:
                file.unlink(missing_ok=True)
        expired = self._expired(now_s, began)
        cut, torn = {**done.cut, **expired.cut}, {**done.torn, **expired.torn}
        return Kept(done.rows, done.texts, expired.texts, tuple(cut.values()), tuple(torn.values()))

    def close(self) -> None:
        """Another process may keep it from now on."""
        self._open.close()
        self._is_ours = False

    def _forgotten(self, ids: AbstractSet[str]) -> Forgotten:
        try:
            return forget([self._folder], ids)
        except TraceError:
            return Forgotten()  # no file is there yet

    def _expired(self, now_s: float, began: str) -> Forgotten:
        found = Forgotten()
        for beside in sorted(self._folder.glob("*Z.json")):
            told = _told(beside)
            if not told.get(_TEXT, True):
                continue
            files = [file for file in files_of(self._folder) if file.name.startswith(f"{beside.stem}-")]
            old = [file for file in files if now_s - file.stat().st_mtime > self.text_keep_s]
            done = strip(file for file in old if file not in self._bare)
            found.texts += done.texts
            found.cut.update(done.cut)
            found.torn.update(done.torn)
            self._bare.update(file for file in old if file not in done.busy and file not in done.torn)
            if beside.stem != began and self._bare.issuperset(files):
                _tell(beside, {**told, _TEXT: False})
        return found


def _told(beside: Path) -> dict[str, object]:
    try:
        told = json.loads(beside.read_bytes())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _tell(beside: Path, told: dict[str, object]) -> None:
    half = beside.with_name(f".{beside.name}.half")
    half.touch(mode=0o600)
    half.write_text(json.dumps(told, indent=1) + "\n")
    half.replace(beside)
