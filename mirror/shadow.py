"""The shadow process: takes copies from workers, sends them to the arms, tells the analysis what came."""

import asyncio
import os
from random import Random
from time import monotonic_ns
from typing import Any

import msgpack
import msgspec

from mirror.admit import Phase, PhaseName
from mirror.comparison import Comparison
from mirror.frames import Copy, Missed, Served
from mirror.inlet import Inlet
from mirror.observations import Observations
from mirror.spec import ShadowSpec
from wire.tasks import Tasks

LANE_SOCKET = "lane.sock"
OBSERVATIONS_SOCKET = "observations.sock"
ANALYSIS_DOWN = "analysis_down"
PAIR_TOO_LARGE = "pair_too_large"

_FLUSH_S = 2.0


class BooksDoNotClose(RuntimeError):
    """A copy was lost or counted twice: a fault of this program, said aloud."""


class _PhaseFrame(msgspec.Struct, frozen=True):
    experiment: str
    phase: PhaseName
    epoch: int = 0


async def serve_shadow(spec: ShadowSpec, stop: asyncio.Event, rng: Random | None = None) -> None:
    """Shadow until `stop` is set, then drain: no new copies, those under way get `drain_s`.

    `rng` shuffles the order of dispatch.  Raises OSError when the lane cannot be listened on,
    BooksDoNotClose at the end when they do not, and whatever ended a background task.
    """
    await Shadow(spec, rng or Random()).serve(stop)


class Shadow:
    """All experiments of one gateway, between one lane and one analysis process."""

    def __init__(self, spec: ShadowSpec, rng: Random) -> None:
        self._spec = spec
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks = Tasks(self._task_failed)
        self._unknown = 0  # frames of experiments this process was not told of
        self.comparisons = {
            experiment.name: Comparison(
                experiment,
                spec,
                rng=rng,
                loop=asyncio.get_running_loop(),
                deliver=self._deliver,
                held_bytes=self._held_bytes,
            )
            for experiment in spec.experiments
        }
        frame_bytes = max(2 * spec.copy_bytes, spec.lane_bytes)
        self.inlet = Inlet(os.path.join(spec.run_dir, LANE_SOCKET), frame_bytes, self._took)
        self.observations = Observations(
            os.path.join(spec.run_dir, OBSERVATIONS_SOCKET), spec.lane_bytes, self._heard
        )

    async def serve(self, stop: asyncio.Event) -> None:
        """See `serve_shadow`."""
        await self.inlet.open()
        try:
            await self._until(stop)
            await self._drain()
        finally:
            await self._close()

    async def _until(self, stop: asyncio.Event) -> None:
        """Work until told to stop; raises what ended a background task."""
        self._tasks.spawn(self.observations.run(), name="observations")
        self._tasks.spawn(self._tick(), name="books")
        stopped = self._tasks.spawn(stop.wait(), name="stop")
        await asyncio.wait((stopped, self._failed), return_when=asyncio.FIRST_COMPLETED)
        if self._failed.done():
            self._failed.result()

    async def _drain(self) -> None:
        """Take no more copies, let those under way end, send what is known, and check the books."""
        comparisons = self.comparisons.values()
        for comparison in comparisons:
            comparison.stop()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._spec.drain_s
        # Looked at now and then: three things can end the wait, and a stop may take 20 ms longer.
        while loop.time() < deadline and any(map(self._unfinished, comparisons)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        self.inlet.close()
        for comparison in comparisons:
            comparison.close()
        self._report()
        if self.observations.connected:
            try:
                async with asyncio.timeout(_FLUSH_S):
                    await self.observations.flushed()
            except TimeoutError:
                pass
        for comparison in comparisons:
            books = comparison.books()
            if books["open"] or books["admitted"] != books["paired"] + sum(books["dropped"].values()):
                raise BooksDoNotClose(f"the books of {comparison.experiment.name} do not close: {books}")

    async def _close(self) -> None:
        """Let go of every socket and task."""
        self.inlet.close()
        for comparison in self.comparisons.values():
            comparison.close()
        await self._tasks.cancel()

    def _unfinished(self, comparison: Comparison) -> bool:
        # Production's answers come by the lane: with no worker on it there is nothing to wait for but the
        # arms.
        joiner = comparison.joiner
        return joiner.inflight > 0 or (joiner.open_copies > 0 and bool(self.inlet.connections))

    def _took(self, frame: Copy | Served | Missed) -> None:
        comparison = self.comparisons.get(frame.experiment)
        if comparison is None:
            self._unknown += 1
        elif isinstance(frame, Copy):
            comparison.take(frame)
        elif isinstance(frame, Served):
            comparison.served(frame)
        else:
            comparison.joiner.drop(frame.reason, frame.n)

    def _heard(self, frame: Any) -> None:
        if not isinstance(frame, list) or len(frame) != 2 or frame[0] != "phase":
            raise ValueError("not a phase frame")
        told = msgspec.convert(frame[1], _PhaseFrame)
        if (comparison := self.comparisons.get(told.experiment)) is not None:
            comparison.phase = Phase(told.phase, told.epoch)

    def _deliver(self, pair: dict[str, Any]) -> str | None:
        frame = _pack("pair", pair)
        if len(frame) > self._spec.pair_bytes:
            return PAIR_TOO_LARGE
        return None if self.observations.offer(frame) else ANALYSIS_DOWN

    def _held_bytes(self) -> int:
        return sum(comparison.held_bytes for comparison in self.comparisons.values())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            for comparison in self.comparisons.values():
                comparison.tick()
            if self.observations.connected:
                self._report()

    def _report(self) -> None:
        for comparison in self.comparisons.values():
            self.observations.offer(_pack("books", comparison.books()))
        status = {
            "process": "shadow",
            "pid": os.getpid(),
            "at_ns": monotonic_ns(),
            "lane": {
                "workers": len(self.inlet.connections),
                "malformed": self.inlet.malformed,
                "unknown": self._unknown,
            },
            "observations": {"queued_bytes": self.observations.queued_bytes, "lost": self.observations.lost},
            "experiments": [comparison.status() for comparison in self.comparisons.values()],
        }
        self.observations.offer(_pack("status", status))

    def _task_failed(self, name: str, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)


def _pack(kind: str, fields: dict[str, Any]) -> bytes:
    packed: bytes = msgpack.packb([kind, fields], use_bin_type=True)
    return packed
