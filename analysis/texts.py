"""What did the arms say, word for word?  Kept beside an experiment's log, and only where that was asked for.

Two files of frames (`analysis.frames`), readable by their owner alone: the one that is written, and the one
before it.  Together they take no more than was allowed; the oldest goes.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from analysis.frames import Frames, framed
from analysis.measure import transcript_of
from analysis.metrics._metric import spoken
from analysis.store import NAME as LOG
from analysis.store import is_written

NAME, BEFORE = "texts.msgpack", "texts.before.msgpack"
_MOST_CHOICES = 8

Said = dict[tuple[str, int], tuple[str, ...]]  # what each choice said, by arm and twin
_Answer = tuple[str, int, list[str]]


class _Record(msgspec.Struct, array_like=True):
    id: str
    answers: list[_Answer]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Record).decode


def texts_of(pair: Mapping[str, Any]) -> Said:
    """The texts of one ["pair", ...] frame: of answers that succeeded, the first eight choices."""
    said: Said = {}
    for answer in pair["answers"]:
        transcript = transcript_of(answer, pair["path"], pair["received_ns"])
        if transcript.fault is None and not transcript.content.opaque:
            choices = transcript.content.choices[:_MOST_CHOICES]
            said[answer["arm"], answer.get("twin", 0)] = tuple(spoken(choice) for choice in choices)
    return said


class Texts:
    """Those of one experiment, the last that fit into `limit_bytes`; 0: none, and what was kept is deleted.

    Nothing here raises for the disk: `lost` counts what could not be written or was too long.
    """

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder = folder
        self.limit_bytes = limit_bytes
        self.lost = 0

    def resize(self, limit_bytes: int) -> None:
        """Keep so much from now on: what is longer goes now."""
        if limit_bytes != self.limit_bytes:
            self.limit_bytes = limit_bytes
            self.begin(anew=False)

    def begin(self, *, anew: bool) -> None:
        """The experiment goes on, or begins anew: then its texts are of pairs that its log has not."""
        if anew or not self.limit_bytes:
            self.forget()
        else:
            self._forget_beyond(self.limit_bytes // 2)

    def forget(self) -> None:
        """Delete what is kept."""
        self._forget_beyond(-1)

    def _forget_beyond(self, most_bytes: int) -> None:
        for name in (NAME, BEFORE):
            path = self._folder / name
            try:
                if path.stat().st_size > most_bytes:
                    path.unlink()
            except FileNotFoundError:
                pass
            except OSError:
                self.lost += 1

    def keep(self, pair: Mapping[str, Any]) -> None:
        """Write down what one pair's answers said, if that was asked for."""
        if not self.limit_bytes or pair.get("scored") is not None:
            return
        said = [(arm, twin, list(texts)) for (arm, twin), texts in texts_of(pair).items()]
        if not said:
            return
        try:
            record = framed("texts", _encode(_Record(str(pair["id"]), said)))
            half = self.limit_bytes // 2
            if len(record) > half:
                self.lost += 1
                return
            self._append(record, half)
        except (OSError, ValueError):
            self.lost += 1

    def _append(self, record: bytes, half: int) -> None:
        path = self._folder / NAME
        self._folder.mkdir(parents=True, exist_ok=True)
        # Opened for each: it may have been deleted, and a text now and then is not much.
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(file).st_size + len(record) > half:
                os.replace(path, self._folder / BEFORE)
                os.close(file)
                file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.write(file, record)
        finally:
            os.close(file)


def forget_others(state_dir: Path, names: Collection[str]) -> list[str]:
    """Delete the texts of all experiments but `names`: those that are gone, unless another process has them.

    Gives the names of those whose texts went, and raises OSError where some cannot be deleted.
    """
    folders = {path.parent for name in (NAME, BEFORE) for path in state_dir.glob(f"*/{name}")}
    gone = sorted(folder for folder in folders if folder.name not in names and not is_written(folder / LOG))
    for folder in gone:
        for name in (NAME, BEFORE):
            (folder / name).unlink(missing_ok=True)
    return [folder.name for folder in gone]


def texts_in(folder: Path, id: str) -> Said | None:
    """What the answers of pair `id` said; None where it was not kept.  OSError when a file cannot be read."""
    found: Said | None = None
    for name in (BEFORE, NAME):
        try:
            file = (folder / name).open("rb")
        except FileNotFoundError:
            continue
        with file:
            for kind, body in Frames(file):
                if kind != "texts":
                    continue
                try:
                    record = _decode(body)
                except msgspec.MsgspecError:
                    continue
                if record.id == id:
                    found = {(arm, twin): tuple(texts) for arm, twin, texts in record.answers}
    return found
