"""The shadow process: takes copies from workers, sends them to the arms, tells the analysis what came."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from collections.abc import Set as AbstractSet
from itertools import count
from random import Random
from time import monotonic_ns
from typing import Any

import msgpack
import msgspec

from mirror import ids
from mirror.admit import Phase, PhaseName
from mirror.braking import ShadowBrakes
from mirror.calling import Call, Calling
from mirror.comparison import Comparison
from mirror.counting import Counting
from mirror.frames import Copy, Frame, Load, Served
from mirror.inlet import Inlet
from mirror.lane import pack_rates
from mirror.lateness import Lateness
from mirror.observations import Observations
from mirror.pair import PAIR_TOO_LARGE, UNPACKABLE
from mirror.readiness import Readiness
from mirror.room import Room
from mirror.spec import MirrorExperiment, ShadowSpec
from mirror.switched import Switched
from mirror.traffic import Open
from wire.tasks import Tasks

_LATENESS_TICKS = 5  # seconds between two words on how late this process was
LANE_SOCKET = "lane.sock"
OBSERVATIONS_SOCKET = "observations.sock"
ANALYSIS_DOWN = "analysis_down"

_FLUSH_S = 2.0


class BooksDoNotClose(RuntimeError):
    """A copy was lost or counted twice: a fault of this program, said aloud."""


class _PhaseFrame(msgspec.Struct, frozen=True):
    experiment: str
    phase: PhaseName
    epoch: int = 0
    blocks: int = 0
    turns: int = 0
    out: frozenset[str] = frozenset()


# A new list of experiments, and whom to tell once it holds (None) or why it could not.
Changes = AsyncIterator[tuple[ShadowSpec, Callable[[str | None], None]]]


async def serve_shadow(
    spec: ShadowSpec,
    stop: asyncio.Event,
    rng: Random | None = None,
    *,
    changes: Changes | None = None,
    readiness: Readiness | None = None,
    switched: Switched | None = None,
    brakes: ShadowBrakes | None = None,
    recorded: Open | None = None,
    call: Call | None = None,
) -> None:
    """Shadow until `stop` is set, then drain: no new copies, those under way get `drain_s`.

    `rng` shuffles the order of dispatch.  `changes` bring other experiments while it runs, `readiness` says
    which launched engines may have copies, `recorded` reads what is replayed, `call` has launched
    engines take turns.  Raises OSError when the lane cannot be listened on, BooksDoNotClose at the end when
    they do not, and whatever ended a background task.
    """
    shadow = Shadow(spec, rng or Random(), readiness or Readiness(), brakes or ShadowBrakes(), recorded, call)
    if switched is not None:
        switched.obeyed_by(shadow.switch)
    await shadow.serve(stop, changes)


class Shadow:
    """All experiments of one gateway, between one lane and one analysis process."""

    def __init__(
        self,
        spec: ShadowSpec,
        rng: Random,
        readiness: Readiness | None = None,
        brakes: ShadowBrakes | None = None,
        recorded: Open | None = None,
        call: Call | None = None,
    ) -> None:
        self._spec = spec
        self._call = call
        self._recorded = recorded
        self._brakes = brakes or ShadowBrakes()
        self._paused: AbstractSet[str] = frozenset()
        self._lateness = Lateness()
        self._readiness = readiness or Readiness()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks = Tasks(self._task_failed)
        self._unknown = 0  # frames of experiments this process was not told of
        self._rng = rng
        self._phases: dict[str, Phase] = {}
        self._ended: dict[str, int] = {}  # the last epoch of comparisons that have ended
        self.ids = Observations(os.path.join(spec.run_dir, ids.SOCKET), ids.LINE_BYTES, lambda _frame: None)
        self.room = Room(spec.held_bytes, _most_copies(spec))
        self.comparisons = {one.name: self._comparison(one) for one in spec.experiments}
        frame_bytes = max(2 * spec.copy_bytes, spec.lane_bytes)
        self.inlet = Inlet(os.path.join(spec.run_dir, LANE_SOCKET), frame_bytes, self._took)
        self.observations = Observations(
            os.path.join(spec.run_dir, OBSERVATIONS_SOCKET), spec.lane_bytes, self._heard
        )

        self._counting = Counting(
            lambda: self.comparisons,
            lambda fields: self.observations.offer(_pack("engine", fields)),
            lambda: self._spec.readings_s or 1.0,
        )

    def _comparison(self, experiment: MirrorExperiment) -> Comparison:
        calling = None
        if experiment.slots is not None and self._call is not None and any(a.mark for a in experiment.arms):
            calling = Calling(experiment.name, experiment.slots, self._readiness, self._call)
        return Comparison(
            experiment,
            self._spec,
            rng=self._rng,
            loop=asyncio.get_running_loop(),
            deliver=self._deliver,
            room=self.room,
            tell_ids=self.ids.offer if self._spec.tells_ids else None,
            lacking=lambda: self._readiness.lacking(experiment),
            lost=lambda: self._readiness.lost(experiment),
            forgone=lambda: self._readiness.forgone(experiment),
            bring=None if calling is None else calling.bring,
            over=None if calling is None else calling.over,
            recorded=self._recorded,
        )

    async def serve(self, stop: asyncio.Event, changes: Changes | None = None) -> None:
        """See `serve_shadow`."""
        await self.inlet.open()
        try:
            if changes is not None:
                self._tasks.spawn(self._follow(changes), name="changes")
            await self._until(stop)
            await self._drain(list(self.comparisons.values()), last=True)
        finally:
            await self._close()

    async def _follow(self, changes: Changes) -> None:
        async for spec, done in changes:
            await self.renew(spec)
            done(None)

    async def renew(self, spec: ShadowSpec) -> None:
        """Run these experiments from now on.

        One that is as it was goes on undisturbed.  One that is not listed any more, or not like that, takes
        no more copies; what it has under way ends, and its books close, before the new ones begin.
        """
        self._spec = spec
        self.room.bound(spec.held_bytes, _most_copies(spec))
        wanted = {experiment.name: experiment for experiment in spec.experiments}
        ending = [one for name, one in self.comparisons.items() if wanted.get(name) != one.experiment]
        if ending:
            await self._drain(ending, last=False)
        for name, experiment in wanted.items():
            if name not in self.comparisons:
                comparison = self.comparisons[name] = self._comparison(experiment)
                comparison.switch(name in self._paused)
                ended, told = self._ended.get(name), self._phases.get(name)
                if name in spec.anew and ended is not None and (told is None or told.epoch == ended):
                    comparison.phase = Phase("paused", ended)  # until the analysis has begun anew, too
                elif told is not None:
                    comparison.phase = told
                self.observations.offer(_pack("books", comparison.books()))  # they count from nothing again

    def switch(self, paused: AbstractSet[str]) -> None:
        """From now on these experiments are paused, and no others."""
        self._paused = paused
        for name, comparison in self.comparisons.items():
            comparison.switch(name in paused)

    async def _until(self, stop: asyncio.Event) -> None:
        """Work until told to stop; raises what ended a background task."""
        self._tasks.spawn(self.observations.run(), name="observations")
        if self._spec.tells_ids:
            self._tasks.spawn(self.ids.run(), name="ids")
        self._tasks.spawn(self._tick(), name="books")
        self._tasks.spawn(self._lateness.watch(self._is_busy), name="lateness")
        if self._spec.readings_s:
            self._tasks.spawn(self._counting.follow(), name="engines' metrics")
        stopped = self._tasks.spawn(stop.wait(), name="stop")
        await asyncio.wait((stopped, self._failed), return_when=asyncio.FIRST_COMPLETED)
        if self._failed.done():
            self._failed.result()

    async def _drain(self, comparisons: list[Comparison], *, last: bool) -> None:
        """Take no more copies, let those under way end, send what is known, and check the books.

        `last`: the process ends with them, and the lane is closed.
        """
        for comparison in comparisons:
            comparison.stop()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._spec.drain_s
        # Looked at now and then: three things can end the wait, and a stop may take 20 ms longer.
        while loop.time() < deadline and any(map(self._unfinished, comparisons)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        if last:
            await self.inlet.end()
        for comparison in comparisons:
            if not last:
                self._ended[comparison.experiment.name] = comparison.phase.epoch
                self._phases[comparison.experiment.name] = comparison.reached
                self.comparisons.pop(comparison.experiment.name, None)
            comparison.close()
            self.observations.offer(_pack("books", comparison.books()))
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

    def _took(self, frame: Frame) -> None:
        comparison = self.comparisons.get(frame.experiment)
        if comparison is None:
            self._unknown += 1
        elif isinstance(frame, Copy):
            comparison.take(frame)
        elif isinstance(frame, Served):
            comparison.served(frame)
        elif isinstance(frame, Load):
            comparison.production_load(frame)
        else:
            comparison.joiner.drop(frame.reason, frame.n)

    def _heard(self, frame: Any) -> None:
        if not isinstance(frame, list) or len(frame) != 2 or frame[0] != "phase":
            raise ValueError("not a phase frame")
        told = msgspec.convert(frame[1], _PhaseFrame)
        phase = Phase(told.phase, told.epoch, told.blocks, told.turns, told.out)
        self._phases[told.experiment] = phase
        if (comparison := self.comparisons.get(told.experiment)) is not None:
            comparison.phase = phase

    def _deliver(self, pair: dict[str, Any]) -> str | None:
        try:
            frame = _pack("pair", pair)
        except (ValueError, OverflowError, TypeError):
            return UNPACKABLE
        if len(frame) > self._spec.pair_bytes:
            return PAIR_TOO_LARGE
        return None if self.observations.offer(frame) else ANALYSIS_DOWN

    def _is_busy(self) -> bool:
        return any(comparison.joiner.inflight for comparison in self.comparisons.values())

    async def _tick(self) -> None:
        for tick in count(1):
            await asyncio.sleep(1.0)
            if tick % _LATENESS_TICKS == 0 and self._lateness.timers:
                late = self._lateness.take()
                for name, comparison in self.comparisons.items():
                    told = {"experiment": name, "epoch": comparison.phase.epoch, **late}
                    self.observations.offer(_pack("late", told))
            rates = {}
            for name, comparison in self.comparisons.items():
                if (undone := comparison.undone) is not None:
                    phase, why = undone
                    told = {"experiment": name, "epoch": comparison.phase.epoch, "why": why}
                    self.observations.offer(_pack(f"un{phase}", told))
                if (load := comparison.tick()) is not None:
                    said = {"experiment": name, "epoch": comparison.phase.epoch, **load.frame()}
                    self.observations.offer(_pack("load", said))
                    if load.matched:
                        rates[name] = load.rate
            if rates:
                self.inlet.tell(pack_rates(rates))
            if self.observations.connected:
                self._report()
            self.inlet.confirm()
            self._brakes.look(monotonic_ns(), self.comparisons.values())

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
            "observations": {
                "queued_bytes": self.observations.queued_bytes,
                "lost": self.observations.lost,
                "metrics_lost": self._counting.lost,
            },
            "experiments": [comparison.status() for comparison in self.comparisons.values()],
        }
        self.observations.offer(_pack("status", status))

    def _task_failed(self, name: str, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)


def _most_copies(spec: ShadowSpec) -> int:
    return sum(experiment.max_inflight for experiment in spec.experiments)


def _pack(kind: str, fields: dict[str, Any]) -> bytes:
    packed: bytes = msgpack.packb([kind, fields], use_bin_type=True)
    return packed
