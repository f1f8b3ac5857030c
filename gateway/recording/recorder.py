"""A recording at work: a clerk with its files, what keeps them, and its log."""

import time
from asyncio import to_thread
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from analysis.scrub import Scrubber
from gateway.recording.clerk import Clerk
from gateway.recording.files import Files
from gateway.recording.forgetting import Keeping
from gateway.recording.spec import RecordSpec
from mirror.frames import Copy, Missed, Served
from wire.errors import told
from wire.tasks import Tasks
from workload.traces import TraceError

_TIDY_EVERY: Final = 30  # seconds


class Recorder:
    """One recording, from its beginning to its end."""

    def __init__(self, spec: RecordSpec, log: Any, tasks: Tasks) -> None:
        self._began = _beginning(Path(spec.to), datetime.now(UTC))
        self._spec = spec
        self._log = log
        self._tasks = tasks
        self._scrubber: Scrubber | None = None
        if spec.text and spec.redact_command:
            self._scrubber = Scrubber(spec.redact_command, log)
            self._scrubbing = tasks.spawn(self._scrubber.run(), name="redact_command")
        self._files = Files(spec, self._began)
        scrub = None if self._scrubber is None else self._scrubber.scrub
        self.clerk = Clerk(spec, time.monotonic_ns(), self._write, self._files.learned(), scrub=scrub)
        self._described: Mapping[str, float] = dict(self.clerk.ratios)
        self._files.describe(self._described)
        self._keeping = Keeping(Path(spec.to), spec.text_keep_s)
        self._is_keeping = False
        self._is_stuck = False  # at a file that cannot be read: what is wanted is tried now and then
        self._said: str | None = None
        self._turn = 0
        self._removed = 0
        self._texts: Counter[str] = Counter()  # rows whose text was taken out again, by reason

    def took(self, frame: object) -> None:
        """One frame of the lane."""
        if isinstance(frame, Copy | Served | Missed):
            self.clerk.took(frame, time.monotonic_ns())

    def look(self, now_ns: int) -> None:
        """What is looked after once a second."""
        self.clerk.look(now_ns)
        if self.clerk.ratios != self._described:
            self._described = dict(self.clerk.ratios)
            self._files.describe(self._described)
        if self._files.error != self._said:
            self._said = self._files.error
            if self._said is None:
                self._log.info("the recording is written again")
            else:
                self._log.error("cannot write the recording; requests are dropped from it", why=self._said)

    def tidy(self, now_ns: int) -> None:
        """Forget what somebody asked to have forgotten; now and then remove what is too old or too much."""
        self._files.rotate(now_ns)
        self._turn += 1
        is_due = self._turn % _TIDY_EVERY == 1
        if is_due:
            removed = self._files.tidy(datetime.now(UTC).timestamp())
            if removed.files:
                self._removed += removed.files
                self._log.info("old recordings removed", files=removed.files, bytes=removed.bytes)
        if self._is_keeping:
            return
        try:
            wanted = self._keeping.asked()
        except OSError as error:
            if is_due:
                self._log.error("the recording's folder cannot be kept", why=told(error))
            return
        if self._is_stuck and not is_due:
            return
        if wanted:
            self.clerk.forget({id for some in wanted.values() for id in some})
            self._files.close()  # what is in the file that is being written can be forgotten, too
        if wanted or is_due:
            self._is_keeping = True
            self._tasks.spawn(self._keep(wanted), name="keep")

    async def _keep(self, wanted: Mapping[Path, set[str]]) -> None:
        try:
            now_s = datetime.now(UTC).timestamp()
            kept = await to_thread(self._keeping.look, wanted, now_s, self._began)
            self._texts += Counter(forgotten=kept.texts, expired=kept.expired)
            if kept.rows or kept.texts:
                self._log.info("requests forgotten", requests=kept.rows, texts_of_others=kept.texts)
            if kept.expired:
                self._log.info("text that was too old removed", requests=kept.expired)
            if kept.cut:
                self._log.warning("what could not be read of damaged files is removed with it", why=kept.cut)
            self._is_stuck = bool(kept.torn)
            if kept.torn:
                self._log.error("text cannot be removed from damaged files", why=kept.torn)
        except (OSError, TraceError) as error:
            self._is_stuck = True
            self._log.error("text cannot be removed from the recording", why=told(error))
        finally:
            self._is_keeping = False

    def counts(self) -> Counter[tuple[str, ...]]:
        """What happened since the beginning, by the names and labels of metrics."""
        clerk = self.clerk
        found: Counter[tuple[str, ...]] = Counter()
        found["recorded",] = clerk.recorded
        found["recorded_bytes",] = self._files.written_bytes
        found["recording_files_removed",] = self._removed
        found.update({("recording_dropped", reason): n for reason, n in clerk.dropped.items()})
        texts = self._texts + (Counter() if self._scrubber is None else self._scrubber.lost)
        found.update({("recording_text_removed", reason): n for reason, n in texts.items()})
        return found

    def close(self) -> None:
        """Write what is left, end the file, and say what became of all."""
        self.clerk.close()
        if self._scrubber is not None:
            self._scrubbing.cancel()
            self._scrubber.close()
        self._files.describe(self.clerk.ratios)
        self._files.close()
        self._keeping.close()
        clerk = self.clerk
        self._log.info(
            "recording ended", taken=clerk.taken, recorded=clerk.recorded, dropped=dict(clerk.dropped)
        )
        if clerk.taken != clerk.recorded + sum(clerk.dropped.values()):
            self._log.error("the recording's books do not close")

    def _write(self, line: bytes) -> str | None:
        return self._files.add(line, time.monotonic_ns())


def _beginning(folder: Path, now: datetime) -> str:
    """The second by which the recording is named: no other's, for what lies beside it says what it holds."""
    while (folder / f"{now:%Y%m%dT%H%M%SZ}.json").exists():
        now += timedelta(seconds=1)
    return f"{now:%Y%m%dT%H%M%SZ}"
