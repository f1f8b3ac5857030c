"""The launching process: keeps launched engines running, reads GPUs, tells supervisor and analysis."""

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import aiohttp

from gateway.launch.engine import Engine
from gateway.launch.nvml import Nvml
from gateway.launch.places import Places
from gateway.launch.reading import Hardware, NoHardware
from gateway.launch.readings import Readings
from gateway.launch.spec import HardwareTold, LaunchedSpec, LaunchSpec, LaunchTold, from_json, to_json
from gateway.processes.line import Line
from mirror.observations import Observations
from wire.errors import told
from wire.tasks import Tasks

_OBSERVATIONS = "observations.sock"
_WAITING_BYTES = 1 << 20
_SAY_AGAIN_S = 1.0
_HALTED = "the experiment is paused and its engines are ended (--stop-engines), until it is resumed"
SAYS = "launched"


async def serve_launch(
    spec: LaunchSpec,
    stop: asyncio.Event,
    log: Any,
    line: Line,
    *,
    open_hardware: Callable[[], Hardware] = Nvml,
) -> None:
    """Launch until `stop` is set; then every engine is ended before this returns.  The line brings others."""
    timeout = aiohttp.ClientTimeout(total=None, connect=5.0)
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
        launcher = Launcher(http, line, log, open_hardware, spec.run_dir)
        line.hears("turns", lambda body: launcher.turn(json.loads(body)))  # it may come before all is begun
        line.hears("halted", lambda body: launcher.halt(json.loads(body)))
        try:
            await launcher.begin()
            launcher.renew(spec)
            await launcher.follow(line, stop)
        finally:
            await launcher.end()


class Launcher:
    """All launched engines of one gateway."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        line: Line,
        log: Any,
        open_hardware: Callable[[], Hardware],
        run_dir: str,
    ) -> None:
        self._http = http
        self._line = line
        self._log = log
        self._tasks = Tasks(lambda name, error: log.error("task failed", task=name, error=told(error)))
        self._places = Places(open_hardware)
        self._observations = Observations(
            os.path.join(run_dir, _OBSERVATIONS), _WAITING_BYTES, lambda _frame: None
        )
        self._readings = Readings(self._places, http, self._observations.offer, log)
        self._engines: dict[tuple[str, str], tuple[Engine, asyncio.Task[None] | None]] = {}
        self._turns: Mapping[str, str | None] = {}  # whose turn it is, where engines take turns
        self._halted: frozenset[str] = frozenset()  # experiments whose engines are not to run
        self._ending: list[tuple[tuple[str, str], asyncio.Task[None]]] = []
        self._kept: set[str] = set()  # experiments whose GPUs are kept between turns
        self._hardware = HardwareTold()
        self._changed = asyncio.Event()

    async def begin(self) -> None:
        """Find out what reads GPUs here, and say once when nothing does."""
        try:
            hardware = await self._places.hardware()
            source = str(getattr(hardware, "source", type(hardware).__name__))
            self._hardware = HardwareTold(source, len(hardware.look()))
            self._log.info("GPUs found", source=source, gpus=self._hardware.gpus)
        except NoHardware as error:
            self._hardware = HardwareTold(error=str(error))
            self._log.warning("no GPUs to launch on or to read here", why=str(error))
        self._tasks.spawn(self._observations.run(), name="observations")
        self._tasks.spawn(self._readings.follow(), name="readings")
        self._tasks.spawn(self._say(), name="say")

    def renew(self, spec: LaunchSpec) -> None:
        """Keep these engines from now on: those that are as they were go on, others end before their heirs
        start."""
        self._places.production = spec.production_gpus
        self._readings.watched, self._readings.every_s = spec.watched, spec.readings_s
        environment = dict(spec.environment)
        wanted = {one.key: one for one in spec.engines}
        for key, (engine, task) in list(self._engines.items()):
            moved = any(gpu.is_called(spec.production_gpus) for gpu in self._places.of(key))
            if wanted.get(key) == engine.spec and not moved:
                del wanted[key]
                continue
            self._end(key, task)
            del self._engines[key]
        for key, one in wanted.items():
            self._engines[key] = self._engine(one, environment), None
        before, self._kept = self._kept, {one.experiment for one in spec.engines if one.in_turn}
        for name in before:
            self._let_go(name)
        self.turn(self._turns)

    def halt(self, experiments: Iterable[str]) -> None:
        """End the engines of these experiments, and give their GPUs back; those of all others run again."""
        self._halted = frozenset(experiments)
        self.turn(self._turns)

    def turn(self, turns: Mapping[str, str | None]) -> None:
        """Run the engines whose turn it is, once those have ended whose turn it was; others always run, but
        for those that are halted."""
        self._turns = turns
        for key, (engine, task) in self._engines.items():
            if task is not None and not self._is_due(engine):
                engine.yields()
                self._end(key, task)
                self._engines[key] = engine, None
        for key, (engine, task) in self._engines.items():
            if task is None and self._is_due(engine):
                self._engines[key] = engine, self._spawn(engine)
            elif task is None and not self._ends(key):
                engine.rests(_HALTED if engine.spec.experiment in self._halted else None)
        for name in self._kept:
            self._let_go(name)
        self._changed.set()

    async def follow(self, line: Line, stop: asyncio.Event) -> None:
        """Take new specs until told to stop."""
        changes = self._tasks.spawn(self._take(line), name="changes")
        await stop.wait()
        changes.cancel()

    async def end(self) -> None:
        """End every engine, then all else."""
        for _engine, task in self._engines.values():
            if task is not None:
                task.cancel()
        await self._tasks.cancel()
        self._tell()
        self._places.close()

    def _is_due(self, engine: Engine) -> bool:
        spec = engine.spec
        if spec.experiment in self._halted:
            return False
        return not spec.in_turn or self._turns.get(spec.experiment) == spec.arm

    def _ends(self, key: tuple[str, str]) -> bool:
        """Whether an engine's last run has not ended yet."""
        return any(ended == key and not task.done() for ended, task in self._ending)

    def _engine(self, spec: LaunchedSpec, environment: dict[str, str]) -> Engine:
        return Engine(
            spec,
            environment=environment,
            places=self._places,
            http=self._http,
            log=self._log,
            changed=self._changed.set,
        )

    def _end(self, key: tuple[str, str], task: asyncio.Task[None] | None) -> None:
        if task is not None:
            task.cancel()
            self._ending.append((key, task))

    def _spawn(self, engine: Engine) -> asyncio.Task[None]:
        """Run an engine once its last run has ended, and, where arms take turns, that of the arm before."""
        spec = engine.spec
        self._ending = [(key, task) for key, task in self._ending if not task.done()]
        before = [
            task
            for key, task in self._ending
            if key == spec.key or (spec.in_turn and key[0] == spec.experiment)
        ]

        async def live() -> None:
            if before:
                await asyncio.wait(before)
            await engine.live()

        running = self._tasks.spawn(live(), name=f"engine {spec.experiment}/{spec.arm}")

        def ended(_task: asyncio.Task[None]) -> None:  # also where it never came to run
            is_halted = spec.experiment in self._halted
            if spec.in_turn or is_halted:
                engine.rests(_HALTED if is_halted else None)
            if spec.in_turn:
                self._let_go(spec.experiment)

        running.add_done_callback(ended)
        return running

    def _let_go(self, experiment: str) -> None:
        """Keep no GPUs for the next turn where there is none: the experiment has ended or is halted, or all
        it sends is sent."""
        is_over = experiment not in self._kept or self._turns.get(experiment) is None
        if is_over or experiment in self._halted:
            self._places.give_up(experiment)

    async def _take(self, line: Line) -> None:
        async for spec, done in line.changes(from_json):
            self.renew(spec)
            done(None)

    async def _say(self) -> None:
        """Tell of every change; what was not taken is told again."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not self._tell():
                await asyncio.sleep(_SAY_AGAIN_S)
                self._changed.set()

    def _tell(self) -> bool:
        engines = tuple(engine.told for engine, _task in self._engines.values())
        return self._line.say(SAYS, to_json(LaunchTold(engines, self._hardware)))
