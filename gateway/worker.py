"""One gateway worker: its parts built and wired, its clocks running, its end orderly."""

import asyncio
import secrets
import socket
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from random import Random
from time import monotonic_ns
from typing import Any

import routing.policies
from config import plugins
from gateway.fleet import Engine, Fleet, Fleets
from gateway.health import Health
from gateway.lane_link import LaneLink
from gateway.loads import LoadTable
from gateway.metrics import WorkerMetrics, by_series
from gateway.server import Connection
from gateway.service import Service
from gateway.spec import FleetSpec, WorkerSpec
from gateway.status import StatusLink, status_frame
from gateway.sweep import sweep
from routing.index import PrefixIndex
from routing.router import Router
from wire.origin import Origin
from wire.tasks import Tasks
from wire.upstream import Pool

_TICK_S = 1.0
_BACKLOG = 2048


async def serve_worker(
    spec: WorkerSpec, listeners: Sequence[socket.socket], stop: asyncio.Event, log: Any
) -> None:
    """Serve until `stop` is set, then finish what runs, within `limits.drain_s`."""
    loop = asyncio.get_running_loop()
    tasks = Tasks(lambda name, error: log.error("task failed", task=name, error=repr(error)))
    run_dir = Path(spec.run_dir)
    loads = LoadTable.open(run_dir / "loads.bin")
    fleets = Fleets((_fleet(fleet) for fleet in spec.fleets), loads, loads.row(spec.index))
    engines = [engine for fleet in fleets.fleets for engine in fleet.engines]
    limits = spec.limits
    pools = {
        engine.id: Pool(
            Origin.parse(engine.spec.url),
            loop=loop,
            connect_timeout_s=limits.connect_timeout_s,
            head_limit_bytes=limits.head_bytes,
        )
        for engine in engines
    }
    lane = LaneLink(
        loop,
        str(run_dir / "lane.sock"),
        spec.experiments,
        lane_bytes=spec.lane_bytes,
        copy_bytes=spec.copy_bytes,
        sees_all=spec.workers == 1,
    )
    service = Service(
        loop,
        fleets,
        pools,
        limits,
        spec.prefix_key,
        lane,
        frozenset(path for engine in engines for path in engine.spec.allow_paths),
    )
    service.know_clients(spec)
    metrics = WorkerMetrics(
        engines=[engine.name for engine in engines],
        fleets=[fleet.name for fleet in fleets.fleets],
        experiments=[experiment.name for experiment in lane.experiments],
    )
    status = StatusLink(loop, str(run_dir / "observations.sock"))
    new_id = _ids()
    servers = [
        await loop.create_server(lambda: Connection(service, new_id), sock=one, backlog=_BACKLOG)
        for one in listeners
    ]

    for fleet in fleets.fleets:
        for engine in fleet.engines:
            health = Health(engine, pools[engine.id], fleet.router.engine_lost, log)
            tasks.spawn(health.watch(), name=f"health {engine.name}")
    tasks.spawn(lane.keep_connected(), name="lane")
    tasks.spawn(status.keep_connected(), name="status")
    tasks.spawn(_tick(service, metrics, status, spec.index), name="tick")

    await stop.wait()
    service.draining = True
    for server in servers:
        server.close()
    await _drain(service, limits.drain_s)
    _report(service, metrics, status, spec.index)
    await tasks.cancel()
    for pool in pools.values():
        pool.close()


def _fleet(spec: FleetSpec) -> Fleet:
    policy = plugins.build(routing.policies, spec.policy, dict(spec.params))
    router = Router(policy, PrefixIndex(), Random(secrets.randbits(64)))
    return Fleet(spec, [Engine(engine) for engine in spec.engines], router)


def _ids() -> Callable[[], str]:
    """Request ids for requests that bring none: random per process, counted within it."""
    start, numbers = secrets.token_hex(6), count(1)
    return lambda: f"sl-{start}-{next(numbers):x}"


async def _tick(service: Service, metrics: WorkerMetrics, status: StatusLink, index: int) -> None:
    while True:
        await asyncio.sleep(_TICK_S)
        sweep(service, monotonic_ns())
        _report(service, metrics, status, index)


def _report(service: Service, metrics: WorkerMetrics, status: StatusLink, index: int) -> None:
    tallies = service.tallies
    counts = dict(tallies.counts)
    for (experiment, reason), dropped in service.lane.dropped.items():
        counts[("lane_dropped", experiment, reason)] = dropped
    for one in service.lane.experiments:
        counts[("mirrored", one.name)] = one.mirrored
    seconds, tallies.seconds = tallies.seconds, type(tallies)().seconds
    engines = [engine for fleet in service.fleets.fleets for engine in fleet.engines]
    gauges: dict[tuple[str, ...], float] = {}
    for engine in engines:
        gauges[("inflight", engine.name)] = engine.inflight
        gauges[("engine_up", engine.name)] = float(engine.up)
    metrics.flush(counts, by_series(seconds), gauges)
    service.lane.tell_missed()
    status.send(status_frame(service, index, monotonic_ns()))


async def _drain(service: Service, drain_s: float) -> None:
    """Let running answers finish; connections without one close now."""
    deadline_ns = monotonic_ns() + int(drain_s * 1e9)
    while service.connections and monotonic_ns() < deadline_ns:
        for connection in [one for one in service.connections if one.is_idle]:
            connection.retire()
        await asyncio.sleep(0.05)
    for connection in list(service.connections):
        connection.cut(reset=True)
