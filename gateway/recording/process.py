"""The process that writes traffic down: it takes what workers hand over, and nobody ever waits for it."""

import asyncio
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from gateway.beat import beat
from gateway.metrics import WorkerMetrics
from gateway.recording.clerk import Clerk
from gateway.recording.files import Files
from gateway.recording.spec import NAME, SOCKET, RecordSpec
from mirror.frames import Copy, Missed, Served
from mirror.inlet import Inlet
from wire.errors import told
from wire.tasks import Tasks

_TIDY_EVERY: Final = 30  # seconds
_LAST_ANSWERS_S: Final = 2.0  # that workers may still hand over when all is to end


async def serve_recording(spec: RecordSpec, stop: asyncio.Event, log: Any) -> None:
    """Record until `stop` is set and what is under way has been answered, for a moment at most.

    Raises OSError when the socket cannot be listened on.
    """
    recorder = Recorder(spec, log)
    inlet = Inlet(
        os.path.join(spec.run_dir, SOCKET), max(2 * spec.copy_bytes, spec.lane_bytes), recorder.took
    )
    tasks = Tasks(lambda name, error: log.error("task failed", task=name, error=told(error)))
    await inlet.open()
    try:
        steps = {
            "look": recorder.look,
            "tidy": recorder.tidy,
            "report": lambda _: recorder.report(),
            "confirm": lambda _: inlet.confirm(),  # what was not is counted as lost, should this process die
        }
        tasks.spawn(
            beat(steps, lambda step, error: log.error("a step failed", step=step, error=told(error))),
            name="tick",
        )
        await stop.wait()
        await recorder.drained(_LAST_ANSWERS_S)
        await inlet.end()
    finally:
        await tasks.cancel()
        inlet.close()
        recorder.close()


class Recorder:
    """A clerk with its files, its metrics and its log."""

    def __init__(self, spec: RecordSpec, log: Any) -> None:
        began = datetime.now(UTC)
        self._spec = spec
        self._log = log
        self._files = Files(spec, began.strftime("%Y%m%dT%H%M%SZ"))
        self.clerk = Clerk(spec, time.monotonic_ns(), self._write)
        self._files.describe({})
        self._described: Mapping[str, float] = {}
        self._metrics = WorkerMetrics(engines=(), fleets=(), experiments=(NAME,))
        self._said: str | None = None
        self._turn = 0
        self._removed = 0

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

    def tidy(self, _now_ns: int) -> None:
        """Remove what is too old or too much, now and then."""
        self._turn += 1
        if self._turn % _TIDY_EVERY == 1:
            removed = self._files.tidy(datetime.now(UTC).timestamp())
            if removed.files:
                self._removed += removed.files
                self._log.info("old recordings removed", files=removed.files, bytes=removed.bytes)

    def report(self) -> None:
        """Export what happened since the start."""
        clerk = self.clerk
        counts: dict[tuple[str, ...], int] = {
            ("recorded",): clerk.recorded,
            ("recorded_bytes",): self._files.written_bytes,
            ("recording_files_removed",): self._removed,
        }
        counts |= {("recording_dropped", reason): n for reason, n in clerk.dropped.items()}
        self._metrics.flush(counts, {}, {("recording_open",): clerk.open})

    async def drained(self, within_s: float) -> None:
        """Wait a moment for the last answers; workers end before this process does."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + within_s
        # Looked at now and then: a stop may take 20 ms longer.
        while self.clerk.open and loop.time() < deadline_s:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    def close(self) -> None:
        """Write what is left, end the file, and say what became of all."""
        self.clerk.close()
        self._files.describe(self.clerk.ratios)
        self._files.close()
        self.report()
        clerk = self.clerk
        self._log.info(
            "recording ended", taken=clerk.taken, recorded=clerk.recorded, dropped=dict(clerk.dropped)
        )
        if clerk.taken != clerk.recorded + sum(clerk.dropped.values()):
            self._log.error("the recording's books do not close")

    def _write(self, line: bytes) -> str | None:
        return self._files.add(line, time.monotonic_ns())
