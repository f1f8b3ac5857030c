"""One launched engine over all its starts: placed, run, asked, ended, as `life` says."""

import asyncio
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import aiohttp

from gateway.launch import life as fate
from gateway.launch.asking import Asking
from gateway.launch.free import is_free
from gateway.launch.gpus import NoRoom, Wanted
from gateway.launch.kept import CannotStart, Kept
from gateway.launch.life import Life, State
from gateway.launch.places import Places
from gateway.launch.spec import EngineTold, LaunchedSpec

_LOOK_S = 2.0  # how often a GPU or a port that is taken is looked at again
_FIRST_PROBE_S = 0.1
_PROBE_S = 1.0


class Engine:
    """Keeps the engine of one arm running until its task is cancelled; then nothing of it is left.

    `environment` is what it inherits.  `changed()` is called whenever `told` says something else.
    """

    def __init__(
        self,
        spec: LaunchedSpec,
        *,
        environment: dict[str, str],
        places: Places,
        http: aiohttp.ClientSession,
        log: Any,
        changed: Callable[[], None],
    ) -> None:
        self.spec = spec
        self._environment = environment
        self._places = places
        self._asking = Asking(spec, http)
        self._log = log.bind(experiment=spec.experiment, arm=spec.arm)
        self._changed = changed
        self._life = Life(spec.ready_s, spec.restarts, State.RESTING if spec.in_turn else State.WAITING)
        self._kept: Kept | None = None
        self._kind: str | None = None
        self._lines: tuple[str, ...] = ()

    @property
    def told(self) -> EngineTold:
        """How it fares."""
        spec, life, kept = self.spec, self._life, self._kept
        return EngineTold(
            experiment=spec.experiment,
            arm=spec.arm,
            mark=spec.mark,
            url=spec.url,
            state=str(life.state),
            why=life.why,
            kind=self._kind,
            pid=None if kept is None else kept.pid,
            gpus=tuple(gpu.uuid for gpu in self._places.of(spec.key)),
            starts=life.starts,
            deaths=life.deaths,
            lines=self._lines,
        )

    async def live(self) -> None:
        """Run it until cancelled; it may then be run again."""
        try:
            while True:
                await self._placed()
                delay_s = await self._run()
                if delay_s is None:
                    await asyncio.Event().wait()
                else:
                    await asyncio.sleep(delay_s)
        finally:
            self._places.give_back(self.spec.key, keep=self.spec.in_turn)
            if not self.spec.in_turn:
                self._life.ended()
            self._changed()

    def rests(self, why: str | None = None) -> None:
        """Nobody runs it: it is another's turn, or, with `why`, its experiment is paused."""
        self._life.rests(why)
        self._changed()

    def yields(self) -> None:
        """Whoever runs it is about to end that, for another's turn."""
        self._life.yields()
        self._changed()

    async def _placed(self) -> None:
        """Wait until its port is free and it has its GPUs."""
        said = None
        while True:
            if not is_free(self.spec.port):
                why = f"port {self.spec.port} is in use by another program"
            else:
                taken = await self._places.take(self.spec.key, Wanted(self.spec.gpus, self.spec.named))
                if not isinstance(taken, NoRoom):
                    return
                why = taken.why
            if why != said:
                said = why
                self._log.warning("engine waits", why=why)
                self._life.waits(why)
                self._changed()
            await asyncio.sleep(_LOOK_S)

    async def _run(self) -> float | None:
        """One start, to its end.  Gives the seconds until the next one; None when there is none."""
        spec, life = self.spec, self._life
        gpus = self._places.of(spec.key)
        visible = ",".join(gpu.uuid for gpu in gpus)
        env = {**self._environment, **dict(spec.env), "CUDA_VISIBLE_DEVICES": visible}
        kept = self._kept = Kept()
        try:
            await kept.start(spec.argv, env, spec.folder, spec.stop_s)
            life.started(monotonic_ns())
            self._log.info("engine started", pid=kept.pid, url=spec.url, gpus=[gpu.uuid for gpu in gpus])
            self._changed()
            why = await self._watch(kept)
        except CannotStart as error:
            why = str(error)
        finally:
            await kept.ended(spec.stop_s)
            self._kept = None
        self._places.give_back(spec.key, keep=spec.in_turn)
        # What it writes once it has served may tell what clients ask: that is not for a log.
        lines = () if life.ready_ns is not None else kept.tail.lines
        self._lines = kept.tail.lines
        delay_s = life.died(why, monotonic_ns())
        if delay_s is None:
            self._log.error("engine given up", why=why, deaths=life.deaths, last_lines=lines)
        else:
            self._log.error("engine died", why=why, again_in_s=delay_s, last_lines=lines)
        self._changed()
        return delay_s

    async def _watch(self, kept: Kept) -> str:
        """See it through to the state in which copies may come, and go on looking; gives why it is over."""
        life, pause_s = self._life, _FIRST_PROBE_S
        while not kept.over.is_set():
            now_ns = monotonic_ns()
            if (why := life.overdue(now_ns)) is not None:
                return why
            if life.state is State.STARTING:
                left_s = self.spec.ready_s - (now_ns - life.started_ns) / 1e9
                if await self._asking.serves(min(fate.PROBE_TIMEOUT_S, max(0.1, left_s))):
                    life.served()
                    self._changed()
                    continue
                pause_s = min(_PROBE_S, pause_s * 2, max(0.05, left_s))
            elif life.state is State.WARMING:
                left_s = self.spec.ready_s - (now_ns - life.started_ns) / 1e9
                failed = await self._asking.warm(max(0.1, left_s))
                if failed is None:
                    self._kind = await self._asking.kind() or self._kind
                    if not kept.over.is_set():
                        life.warmed(monotonic_ns())
                        self._log.info("engine ready", pid=kept.pid, kind=self._kind)
                elif life.why != failed:
                    life.why = failed
                self._changed()
                pause_s = _PROBE_S
            else:
                well = await self._asking.serves(fate.PROBE_TIMEOUT_S)
                life.probed(monotonic_ns(), well=well)
                pause_s = fate.PROBE_EVERY_S
            await _over(kept, pause_s)
        return kept.why


async def _over(kept: Kept, within_s: float) -> None:
    """Wait so long, less when it ends."""
    try:
        async with asyncio.timeout(within_s):
            await kept.over.wait()
    except TimeoutError:
        pass
