"""One gateway worker: its parts built and wired, its clocks running, its config renewed, its end orderly."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from random import random
from time import monotonic_ns
from typing import Any

import routing.policies
from config import plugins
from gateway.access_log import AccessLog
from gateway.admission.desk import Desk
from gateway.bridge.studies import Studies
from gateway.clients.entrance import Porter
from gateway.clients.listen import descriptors
from gateway.clients.server import Connection
from gateway.clients.tls import Certificates
from gateway.durations import Durations
from gateway.fleets.fleet import Fleet, Fleets, Seconds
from gateway.fleets.lineup import Lineup
from gateway.fleets.loads import LoadTable
from gateway.fleets.pools import Pools
from gateway.kv import loads as reported
from gateway.kv.memory import open_known
from gateway.metrics import WorkerMetrics
from gateway.processes.beat import beat
from gateway.processes.braking import Braking, Tripped
from gateway.processes.drain import drain
from gateway.processes.line import Done
from gateway.processes.line_writer import LineWriter
from gateway.processes.status import StatusLink, engine_series, shadow_series, status_frame
from gateway.recording.spec import NAME as RECORDING
from gateway.recording.tap import lane_of
from gateway.request_id import Ids
from gateway.service import Service, Tallies
from gateway.spec import WorkerSpec
from gateway.sweep import sweep
from mirror.switched import Switched
from wire.errors import told
from wire.exchange import Ending
from wire.tasks import Tasks

_STANDARD_ERROR = 2
_LAST_LINES_S = 1.0  # that whoever reads the log may take for the last of it

Changes = AsyncIterator[tuple[WorkerSpec, Done]]


async def serve_worker(
    spec: WorkerSpec,
    listeners: Sequence[socket.socket],
    stop: asyncio.Event,
    log: Any,
    *,
    changes: Changes | None = None,
    unreached: Callable[[str], None] = lambda _fleet: None,
    switched: Switched | None = None,
    tripped: Tripped = lambda _experiment, _trip: None,
) -> None:
    """Serve until `stop` is set, then finish what runs, within `limits.drain_s`.

    `changes` are new specs to serve by from then on; `unreached(fleet)` is called when an engine is lost.
    `switched` says which experiments are paused, `tripped(experiment, trip)` is called while one should be.
    """
    loop = asyncio.get_running_loop()
    tasks = Tasks(lambda name, error: log.error("task failed", task=name, error=told(error)))
    worker = _Worker(spec, loop, tasks, log, unreached, tripped)
    if switched is not None:
        switched.obeyed_by(worker.lane.switch)
    ids = Ids(b"sl-%b-" % secrets.token_hex(6).encode())
    porter = Porter(worker.service, worker.certificates, lambda: Connection(worker.service, ids), tasks)
    servers = [await porter.serve(one) for one in listeners]
    tasks.spawn(worker.lane.keep_connected(), name="lane")
    tasks.spawn(worker.status.keep_connected(), name="status")
    if worker.studies is not None:
        tasks.spawn(worker.studies.link.keep_connected(), name="bridge")
    tasks.spawn(worker.tick(), name="tick")
    tasks.spawn(worker.certificates.watch(), name="certificates")
    if changes is not None:
        tasks.spawn(_follow(changes, worker, log), name="changes")

    await stop.wait()
    await drain(worker.service, servers, worker.report)
    worker.report()
    await worker.told()
    await tasks.cancel()
    worker.close()


class _Worker:
    """The parts of one worker, and what is done with them once a second and once a reload."""

    def __init__(
        self,
        spec: WorkerSpec,
        loop: asyncio.AbstractEventLoop,
        tasks: Tasks,
        log: Any,
        unreached: Callable[[str], None],
        tripped: Tripped,
    ) -> None:
        run_dir = Path(spec.run_dir)
        loads = LoadTable.open(run_dir / "loads.bin")
        tallies = Tallies()
        self._log = log
        self.certificates = Certificates(spec, tallies.counts, log)
        self._pools = Pools(loop, self.certificates, spec.limits, descriptors(), log)
        self._index = spec.index
        self.lineup = Lineup(loads, loads.row(spec.index), self._pools.of, tasks, log, unreached)
        share = spec.access_share
        fleets = self.lineup.renew(spec.fleets, spec.limits, monotonic_ns(), first=True, explained=share)
        self.known = open_known(run_dir)
        self.studies = None
        if self.known is not None:
            self.studies = Studies(loop, spec.run_dir, self.known, tallies.counts, spec.workers)
            self.studies.renew(fleets.fleets)
        self.lane = lane_of(spec, loop)
        self.brakes = Braking(self.lane, spec.experiments, spec.lane_bytes, tripped)
        self.service = Service(
            loop,
            fleets,
            self.lineup.pools,
            spec.limits,
            spec.prefix_key,
            self.lane,
            _opened(spec),
            tallies=tallies,
            access=AccessLog(
                f"worker-{spec.index}", share=spec.access_share, failures=spec.log_failures, rng=random
            ),
            doors=self._pools.doors,
            failed=self._failed,
        )
        self.service.know_clients(spec)
        self._desk = Desk(loop, run_dir, spec.index, tallies.counts)
        self.service.admission = self._desk.renew(spec.admission, _by_model(fleets))
        self._lines = LineWriter(loop, _STANDARD_ERROR)
        self.status = StatusLink(loop, str(run_dir / "observations.sock"))
        self._metrics = WorkerMetrics(
            engines=[engine.url for fleet in spec.fleets for engine in fleet.engines],
            fleets=[fleet.name for fleet in fleets.fleets],
            experiments=[*(experiment.name for experiment in self.lane.experiments), RECORDING],
            keys=_keys(spec),
            policies=plugins.names(routing.policies),
        )

    def renew(self, spec: WorkerSpec) -> None:
        """Serve by `spec` from the next request on; what runs keeps what it began with.

        Nothing is changed when this raises: the policies are built first, and nothing after them fails.
        """
        service = self.service
        self.certificates.check(spec)
        service.fleets = self.lineup.renew(
            spec.fleets, spec.limits, monotonic_ns(), explained=spec.access_share
        )
        service.admission = self._desk.renew(spec.admission, _by_model(service.fleets))
        if self.studies is not None:
            self.studies.renew(service.fleets.fleets)
        service.pools = self.lineup.pools
        service.limit(spec.limits)
        service.opened_paths = _opened(spec)
        service.know_clients(spec)
        service.access.share = spec.access_share
        self.certificates.renew(spec)
        self._pools.limit(spec.limits)
        for engine in (engine for fleet in spec.fleets for engine in fleet.engines):
            self._pools.secure(service.pools[engine.id], engine)
        self.lane.renew(spec.experiments)
        self.lane.record(spec.record)
        self.brakes.renew(spec.experiments)
        self._metrics.know(
            engines=[engine.url for fleet in spec.fleets for engine in fleet.engines],
            fleets=[fleet.name for fleet in service.fleets.fleets],
            experiments=[*(experiment.name for experiment in self.lane.experiments), RECORDING],
            keys=_keys(spec),
        )

    async def tick(self) -> None:
        """What is looked after once a second."""
        steps = {
            "sweep": lambda now_ns: sweep(self.service, now_ns),
            "look": self._look,
            "let go": self._let_go,
            "report": lambda _: self.report(),
            "brakes": lambda _: self._brake(),
        }
        await beat(steps, self._failed)

    def _brake(self) -> None:
        service = self.service
        names = {fleet.spec.model: fleet.name for fleet in service.fleets.fleets}
        self.brakes.look(service.tallies.all(), names)

    def _look(self, now_ns: int) -> None:
        if self.known is not None and self.studies is not None:
            reported.look(self.known, self.service.fleets.fleets, now_ns)
            self.studies.look()
        for fleet in self.service.fleets.fleets:
            fleet.look(now_ns)
        self.service.fleets.learn(now_ns / 1e9)

    def _failed(self, step: str, error: Exception) -> None:
        self.service.tallies.counts[("step_failed",)] += 1
        self._log.error("a step failed; it is taken again", step=step, error=told(error))

    def _let_go(self, now_ns: int) -> None:
        service, lineup = self.service, self.lineup
        gone, overdue = lineup.look(now_ns)
        service.fleets, service.pools = lineup.fleets, lineup.pools
        here = {engine.name for fleet in lineup.fleets.fleets for engine in fleet.engines}
        self._metrics.forget_engines({engine.name for engine in gone} - here)
        if overdue:
            for attempt in [one for one in service.active if one.engine in overdue]:
                attempt.exchange.cancel(Ending.SHUTDOWN)
            for tunnel in [one for one in service.tunnels if one.engine in overdue]:
                tunnel.engine_left()

    async def told(self) -> None:
        """Wait a moment for the last lines of the access log to be written."""
        await self._lines.finish(_LAST_LINES_S)
        if not self._lines.is_busy:
            self._lines.write(self.service.access.take())
            await self._lines.finish(_LAST_LINES_S)

    def close(self) -> None:
        """Let go of what is held, once nothing runs."""
        self.lineup.close()
        if self.known is not None:
            self.known.close()
        self._desk.close()

    def report(self) -> None:
        """Export what happened since the last time."""
        service, tallies = self.service, self.service.tallies
        for fleet in service.fleets.fleets:
            if fleet.shadow is not None:
                shadow_series(fleet.name, fleet.shadow, tallies.counts)
        counts = tallies.all()
        for (experiment, reason), dropped in service.lane.dropped.items():
            counts[("lane_dropped", experiment, reason)] = dropped
        for one in service.lane.experiments:
            counts[("mirrored", one.name)] = one.lane.taken
        for reason, n in service.access.dropped.items():
            counts[("access_log_dropped", reason)] = n
        counts[("retries_refused",)] = service.retries.refused
        counts[("choices_missed",)] = self.lineup.missed
        if not self._lines.is_busy:  # else they wait, up to a bound
            self._lines.write(service.access.take())
        gauges: dict[tuple[str, ...], float] = {}
        for engine in self.lineup.leaving:
            gauges[("inflight", engine.name)] = engine.inflight
        seconds: dict[tuple[str, ...], Durations] = {}
        for fleet in service.fleets.fleets:
            engine_series(fleet.engines, counts, gauges)
            seen, fleet.seconds = fleet.seconds, Seconds()
            seconds["ttft", fleet.name] = seen.ttft
            if fleet.ttfts_s:
                self.brakes.saw(fleet.name, fleet.ttfts_s)
            fleet.ttfts_s = [] if self.brakes.is_needed else None
            seconds["e2e", fleet.name] = seen.e2e
            seconds["overhead", fleet.name] = seen.overhead
        self._desk.report(counts, seconds, gauges)
        if self.studies is not None:
            self.studies.report(counts, gauges)
        self._metrics.flush(counts, seconds, gauges)
        service.lane.tell_missed()
        now_ns = monotonic_ns()
        service.lane.tell_load(self._index, now_ns, _busy(service, now_ns))
        self.status.send(status_frame(service, self._index, monotonic_ns()))


async def _follow(changes: Changes, worker: _Worker, log: Any) -> None:
    async for spec, done in changes:
        try:
            worker.renew(spec)
        except Exception as error:
            log.exception("cannot serve by the new configuration; the old one goes on")
            done(told(error))
        else:
            done(None)


def _busy(service: Service, now_ns: int) -> dict[str | None, tuple[int, int]]:
    """By model: how long requests were in flight until now, together, and how many engines there are."""
    running: dict[str | None, int] = {}
    for attempt in service.active:
        fleet = attempt.engine.fleet
        if fleet is not None:
            model = fleet.spec.model
            running[model] = running.get(model, 0) + now_ns - attempt.sent_ns
    return {
        fleet.spec.model: (
            fleet.busy_ns + running.get(fleet.spec.model, 0),
            sum(engine.is_there for engine in fleet.engines),
        )
        for fleet in service.fleets.fleets
    }


def _by_model(fleets: Fleets) -> dict[str | None, Fleet]:
    return {fleet.spec.model: fleet for fleet in fleets.fleets}


def _keys(spec: WorkerSpec) -> list[str]:
    return [] if spec.admission is None else [key.name for key in spec.admission.keys]


def _opened(spec: WorkerSpec) -> frozenset[str]:
    return frozenset(path for fleet in spec.fleets for one in fleet.engines for path in one.allow_paths)
