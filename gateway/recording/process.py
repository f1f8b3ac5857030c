"""The process that writes traffic down: it takes what workers hand over, and nobody ever waits for it."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Final

from gateway.metrics import WorkerMetrics
from gateway.processes.beat import beat
from gateway.processes.line import Done
from gateway.recording.recorder import Recorder
from gateway.recording.spec import NAME, SOCKET, RecordSpec
from mirror.inlet import Inlet
from wire.errors import told
from wire.tasks import Tasks

_LOOK_S: Final = 0.02
_LAST_ANSWERS_S: Final = 2.0  # that workers may still hand over when all is to end

Changes = AsyncIterator[tuple[RecordSpec, Done]]


async def serve_recording(
    spec: RecordSpec, stop: asyncio.Event, log: Any, changes: Changes | None = None
) -> None:
    """Record until `stop` is set and what is under way has been answered, for a moment at most.

    `changes` bring other settings; with other ones a recording ends and the next one begins.  Raises OSError
    when the socket cannot be listened on.
    """
    tasks = Tasks(lambda name, error: log.error("task failed", task=name, error=told(error)))
    recording = Recording(log, tasks)
    inlet = Inlet(
        os.path.join(spec.run_dir, SOCKET), max(2 * spec.copy_bytes, spec.lane_bytes), recording.took
    )
    await inlet.open()
    try:
        recording.renew(spec)
        steps = {
            "look": recording.look,
            "tidy": recording.tidy,
            "report": lambda _: recording.report(),
            "confirm": lambda _: inlet.confirm(),  # what was not is counted as lost, should this process die
        }
        tasks.spawn(
            beat(steps, lambda step, error: log.error("a step failed", step=step, error=told(error))),
            name="tick",
        )
        if changes is not None:
            tasks.spawn(recording.follow(changes), name="changes")
        await stop.wait()
        await recording.drained(_LAST_ANSWERS_S)
        await inlet.end()
    finally:
        await tasks.cancel()
        inlet.close()
        recording.end()


class Recording:
    """The recording that is made just now, if any, and what all of them have counted."""

    def __init__(self, log: Any, tasks: Tasks) -> None:
        self._log = log
        self._tasks = tasks
        self._metrics = WorkerMetrics(engines=(), fleets=(), experiments=(NAME,))
        self._past: Counter[tuple[str, ...]] = Counter()
        self._spec: RecordSpec | None = None
        self._recorder: Recorder | None = None

    async def follow(self, changes: Changes) -> None:
        """Take new settings as they come."""
        async for spec, done in changes:
            if spec != self._spec:
                await self.drained(_LAST_ANSWERS_S)
            self.renew(spec)
            done(None)

    def renew(self, spec: RecordSpec) -> None:
        """Record by these settings from now on; where they are other ones, another recording begins."""
        if spec == self._spec:
            return
        self.end()
        self._spec = spec
        if spec.to:
            self._recorder = Recorder(spec, self._log, self._tasks)

    def took(self, frame: object) -> None:
        """One frame of the lane; what comes after the last recording has ended is nobody's."""
        if self._recorder is not None:
            self._recorder.took(frame)

    def look(self, now_ns: int) -> None:
        """Once a second."""
        if self._recorder is not None:
            self._recorder.look(now_ns)

    def tidy(self, now_ns: int) -> None:
        """Once a second."""
        if self._recorder is not None:
            self._recorder.tidy(now_ns)

    def report(self) -> None:
        """Export what happened since the start."""
        now = Counter[tuple[str, ...]]() if self._recorder is None else self._recorder.counts()
        open = 0 if self._recorder is None else self._recorder.clerk.open
        self._metrics.flush(self._past + now, {}, {("recording_open",): open})

    async def drained(self, within_s: float) -> None:
        """Wait a moment for the last answers; workers end before this process does.

        Looks are counted and no time is: in what this process stands still it hears of no answer.
        """
        for _ in range(round(within_s / _LOOK_S)):
            if self._recorder is None or not self._recorder.clerk.open:
                return
            await asyncio.sleep(_LOOK_S)

    def end(self) -> None:
        """End the recording, if there is one."""
        if self._recorder is not None:
            self._recorder.close()
            self._past += self._recorder.counts()
            self._recorder = None
            self.report()
