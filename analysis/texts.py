"""What did the arms say, word for word?  Kept beside an experiment's log, and only where that was asked for.

What is kept went through the operator's patterns and command first, takes no more room than was allowed (the
oldest goes), is kept no longer, and is forgotten when that is asked for, request by request.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from analysis import text_files
from analysis.measure import transcript_of
from analysis.metrics._metric import spoken
from analysis.redact import Redaction
from analysis.spec import TextSpec
from analysis.text_files import BEFORE, FILES, NAME, Record, Said, packed

_MOST_CHOICES = 8
_REMEMBER: Final = 50_000  # requests whose pairs, should they come yet, are not kept

Scrubbed = Callable[[list[str | None]], None]
Scrub = Callable[[tuple[str, ...], Sequence[str], Scrubbed], None]


NOTHING: Final = TextSpec()


def texts_of(pair: Mapping[str, Any]) -> Said:
    """The texts of one ["pair", ...] frame: of answers that succeeded, the first eight choices."""
    said: Said = {}
    for answer in pair["answers"]:
        transcript = transcript_of(answer, pair["path"], pair["received_ns"])
        if transcript.fault is None and not transcript.content.opaque:
            choices = transcript.content.choices[:_MOST_CHOICES]
            said[answer["arm"], answer.get("twin", 0)] = tuple(spoken(choice) for choice in choices)
    return said


def _wall_s() -> float:
    """As files' instants are: it outlasts a restart of the machine."""
    return datetime.now(UTC).timestamp()


class Texts:
    """Those of one experiment, in two files: the one that is written, and the one before it.

    A file is full at half the room, or when its first text is half as old as texts may get: so what is kept
    is at least the last of half the room and half the time, and at most all of both.  With nothing to be
    kept, what was is deleted.  `lost` counts what could not be written, or was too long; nothing here but
    `forget` raises for the disk, and `stuck` says why what is too old could not be deleted.  `scrub` has
    texts go through a command and gives back, on the thread that calls `keep`, what may be kept of each.
    """

    def __init__(self, folder: Path, spec: TextSpec = NOTHING, now_s: Callable[[], float] = _wall_s) -> None:
        self._folder = folder
        self._now_s = now_s
        self._begun_s: dict[str, float] = {}  # when each file's oldest text was written
        self._forgotten: OrderedDict[str, None] = OrderedDict()
        self._beginnings = 0  # a text that was given to the command before the last is not written
        self._redaction = Redaction(spec.redact)
        self.spec = spec
        self.scrub: Scrub | None = None
        self.lost = 0
        self.stuck: str | None = None

    def renew(self, spec: TextSpec) -> None:
        """Keep what this says from now on: what is longer or older goes now."""
        if spec != self.spec:
            self.spec, self._redaction = spec, Redaction(spec.redact)
            self.begin(anew=False)

    def begin(self, *, anew: bool) -> None:
        """The experiment goes on, or begins anew: then its texts are of pairs that its log has not."""
        with suppress(OSError):  # it is tried again by `look`
            text_files.sweep(self._folder)
        self._beginnings += 1
        self._begun_s.clear()
        if anew or not self.spec.limit_bytes:
            self._delete_beyond(-1)
        else:
            self._delete_beyond(self.spec.limit_bytes // 2)
        self.look()

    def look(self) -> None:
        """Delete what is too old.  To be called now and then."""
        try:
            text_files.sweep(self._folder)
            for name in FILES:
                self._look(name)
            self.stuck = None
        except OSError as error:
            self.stuck = error.strerror or str(error)

    def _look(self, name: str) -> None:
        path = self._folder / name
        if not path.exists():
            return
        if name not in self._begun_s:
            begun_s = text_files.begun_s(path)
            if begun_s is None:
                path.unlink(missing_ok=True)  # of what cannot be read nobody knows how old it is
                return
            self._begun_s[name] = begun_s
        age_s = self._now_s() - self._begun_s[name]
        if age_s > self.spec.keep_s:
            path.unlink(missing_ok=True)
            del self._begun_s[name]
        elif name == NAME and age_s > self.spec.keep_s / 2:
            self._put_by()

    def forget(self, requests: Collection[str]) -> int:
        """Take out what was said to these requests, and keep none that comes yet; of how many pairs it was.

        Raises OSError.
        """
        self._forgotten.update(dict.fromkeys(requests))
        while len(self._forgotten) > _REMEMBER:
            self._forgotten.popitem(last=False)
        self._begun_s.clear()
        return text_files.forget_in(self._folder, requests)

    def keep(self, pair: Mapping[str, Any]) -> None:
        """Write down what one pair's answers said, if that was asked for."""
        if not self.spec.limit_bytes or pair.get("scored") is not None or pair.get("phase") == "forced":
            return  # of tokens that the control dictated nothing was said, and nothing could be redacted
        clean = self._redaction.text
        said = {whose: list(map(clean, texts)) for whose, texts in texts_of(pair).items()}
        if not any(said.values()):
            return
        write = partial(self._write, str(pair["id"]), said, self._beginnings)
        texts = [text for some in said.values() for text in some]
        if not self.spec.redact_command:
            write(texts)
        elif self.scrub is None:
            self.lost += 1
        else:
            self.scrub(self.spec.redact_command, texts, write)

    def _write(
        self, id: str, said: Mapping[tuple[str, int], list[str]], since: int, texts: Sequence[str | None]
    ) -> None:
        """Write what may be written: of an answer all choices or none."""
        if not self.spec.limit_bytes or text_files.is_of(id, self._forgotten):
            return
        if since != self._beginnings:
            self.lost += 1  # of a pair that the log has no more, or not redacted as is wanted by now
            return
        rest = iter(texts)
        given = {whose: [next(rest) for _ in some] for whose, some in said.items()}
        answers = [
            (arm, twin, [text for text in some if text is not None])
            for (arm, twin), some in given.items()
            if None not in some
        ]
        if not answers:
            return
        try:
            record = packed(Record(id, answers, self._now_s()))
            if len(record) > self.spec.limit_bytes // 2:
                self.lost += 1
            else:
                self._append(record)
        except (OSError, ValueError):
            self.lost += 1

    def _append(self, record: bytes) -> None:
        path = self._folder / NAME
        self._folder.mkdir(parents=True, exist_ok=True)
        # Opened for each: it may have been deleted, and a text now and then is not much.
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(file).st_size + len(record) > self.spec.limit_bytes // 2:
                self._put_by()
                os.close(file)
                file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if not os.fstat(file).st_size:
                self._begun_s[NAME] = self._now_s()
            os.write(file, record)
        finally:
            os.close(file)

    def _put_by(self) -> None:
        """The file that is written becomes the one before."""
        os.replace(self._folder / NAME, self._folder / BEFORE)
        self._begun_s.pop(BEFORE, None)
        if (begun_s := self._begun_s.pop(NAME, None)) is not None:
            self._begun_s[BEFORE] = begun_s

    def _delete_beyond(self, most_bytes: int) -> None:
        for name in FILES:
            path = self._folder / name
            try:
                if path.stat().st_size > most_bytes:
                    path.unlink()
                    self._begun_s.pop(name, None)
            except FileNotFoundError:
                pass
            except OSError:
                self.lost += 1
