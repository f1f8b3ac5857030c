"""The process that reads KV events: it listens to the engines, and tells how far each is believed."""

import asyncio
import json
import resource
from pathlib import Path
from typing import Any, Final

from gateway.bridge.school import School
from gateway.kv.feed import Feed
from gateway.kv.spec import KvSpec, from_json
from gateway.metrics import WorkerMetrics
from gateway.processes.beat import beat
from gateway.processes.line import Line
from routing.events.board import State
from routing.events.decode import TIERS
from wire.errors import told
from wire.tasks import Tasks

_TOLD_EVERY: Final = 2  # seconds, at most
_BLOCK_BYTES: Final = 250
_ELSE_BYTES: Final = 2 << 30


async def serve_events(spec: KvSpec, stop: asyncio.Event, log: Any, line: Line) -> None:
    """Listen until `stop` is set.  An `engines` message brings others."""
    tasks = Tasks(lambda name, error: log.error("task failed", task=name, error=told(error)))
    feed = Feed(Path(spec.run_dir), tasks, log)
    school = School(spec.run_dir, log)
    exported = _Exported(feed, line, school)

    def renew(spec: KvSpec) -> None:
        _bound_memory(spec)
        exported.know(spec)
        feed.renew(spec)

    def failed(step: str, error: Exception) -> None:
        log.error("a step failed; it is taken again", step=step, error=told(error))

    renew(spec)
    line.hears("engines", lambda body: renew(from_json(body)))
    steps = {"look": lambda _: feed.look(), "report": lambda _: exported.report()}
    tasks.spawn(beat(steps, failed), name="tick")
    tasks.spawn(school.serve(stop), name="school")
    await stop.wait()
    await tasks.cancel()
    feed.close()


class _Exported:
    """What is told once a second: to whoever scrapes, and to the admin page where it has changed."""

    def __init__(self, feed: Feed, line: Line, school: School) -> None:
        self._feed = feed
        self._school = school
        self._line = line
        self._metrics = WorkerMetrics(engines=(), fleets=())
        self._said = b""
        self._turn = 0
        self._gauges: set[tuple[str, ...]] = set()

    def know(self, spec: KvSpec) -> None:
        """Labels of a new configuration."""
        self._metrics.know(
            engines=[engine.url for engine in spec.engines],
            fleets={engine.fleet for engine in spec.engines},
            experiments=(),
        )

    def report(self) -> None:
        """Export, and tell."""
        gauges: dict[tuple[str, ...], float] = dict.fromkeys(self._gauges, float("nan"))
        for engine, heard in self._feed.heard:
            rank = str(heard.source.rank)
            for state in State:
                gauges["kv_state", engine.url, rank, state.name] = float(heard.publisher.state is state)
            gauges["kv_blocks", engine.url, rank] = heard.publisher.held
            for tier, held in heard.publisher.held_below.items():
                gauges["kv_blocks_below", engine.url, rank, TIERS[tier]] = held
            if heard.lag_s is not None:
                gauges["kv_lag_seconds", engine.url, rank] = heard.lag_s
        self._gauges = {key for key, value in gauges.items() if value == value}
        counts: dict[tuple[str, ...], int] = dict(self._feed.counts())
        counts |= {("learning", what): n for what, n in self._school.counts.items()}
        self._metrics.flush(counts, {}, gauges)
        self._turn += 1
        if self._turn % _TOLD_EVERY == 0:
            said = json.dumps(self._feed.status()).encode()
            if said != self._said and self._line.say("publishers", said):
                self._said = said


def _bound_memory(spec: KvSpec) -> None:
    """Have what an engine makes grow without end, in a library or here, end this process and nothing else.

    ZeroMQ bounds messages by number and not by bytes.  Production does without what this process knows until
    it is started again.
    """
    ranks = sum(engine.events.most_blocks * engine.events.ranks for engine in spec.engines)
    blocks = len(TIERS) * ranks
    most = _ELSE_BYTES + blocks * _BLOCK_BYTES
    _soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
