"""The discovery process: watches every source, and tells the supervisor what each one says."""

import asyncio
from collections.abc import Callable
from random import uniform
from typing import Any

from gateway.discovery.dns import DnsSource
from gateway.discovery.file import FileSource
from gateway.discovery.kubernetes import KubernetesSource
from gateway.discovery.source import NoAnswer, Source, until
from gateway.discovery.spec import Found, Sources, SourceSpec, from_json, to_json
from gateway.processes.line import Line
from wire.errors import told
from wire.tasks import Tasks

_FIRST_DELAY_S = 0.5

Tell = Callable[[Found], None]


async def serve_discovery(sources: Sources, stop: asyncio.Event, log: Any, line: Line) -> None:
    """Watch until `stop` is set.  A `sources` message brings others, `again` a fleet that lost an engine."""

    def tell(found: Found) -> None:
        if not line.say("found", to_json(found)):
            log.error("the supervisor does not hear what was found", fleet=found.fleet)

    tasks = Tasks(lambda name, error: log.error("task failed", task=name, error=told(error)))
    watches = Watches(tasks, tell, log)
    watches.renew(sources)
    line.hears("sources", lambda body: watches.renew(from_json(body)))
    line.hears("again", lambda body: watches.again(body.decode()))
    await stop.wait()
    await tasks.cancel()


class Watches:
    """One task for each source."""

    def __init__(self, tasks: Tasks, tell: Tell, log: Any) -> None:
        self._tasks = tasks
        self._tell = tell
        self._log = log
        self._running: dict[SourceSpec, tuple[asyncio.Task[None], asyncio.Event]] = {}

    def renew(self, sources: Sources) -> None:
        """Watch these; a source that was watched goes on."""
        for spec in self._running.keys() - set(sources.sources):
            self._running.pop(spec)[0].cancel()
        for spec in sources.sources:
            if spec not in self._running:
                again = asyncio.Event()
                watch = follow(spec.fleet, source_of(spec), again, self._tell, self._log)
                self._running[spec] = (self._tasks.spawn(watch, name=f"discovery {spec.told}"), again)

    def again(self, fleet: str) -> None:
        """The last answer for this fleet is perhaps out of date."""
        for spec, (_task, again) in self._running.items():
            if spec.fleet == fleet:
                again.set()


def source_of(spec: SourceSpec) -> Source:
    """The source that a spec describes."""
    if spec.dns is not None:
        return DnsSource(spec.dns)
    if spec.file is not None:
        return FileSource(spec.file)
    assert spec.kubernetes is not None
    return KubernetesSource(spec.kubernetes)


async def follow(fleet: str, source: Source, again: asyncio.Event, tell: Tell, log: Any) -> None:
    """Tell what a source says, for ever.

    An empty answer is told as none: it is far more often a mistake on the way than a fleet without engines,
    and whoever means that takes the fleet out of the config.
    """
    delay_s = min(_FIRST_DELAY_S, source.most_delay_s)
    last: Found | None = None

    def say(urls: frozenset[str] | None, error: str | None) -> None:
        nonlocal last
        found = Found(fleet, tuple(sorted(urls)) if urls else None, error)
        if found != last:
            last = found
            if error is not None:
                log.warning("no usable answer; the engines known stay", fleet=fleet, why=error)
            else:
                log.info("engines found", fleet=fleet, engines=found.urls)
            tell(found)

    while True:
        again.clear()
        try:
            async for urls in source.watch(again):
                delay_s = min(_FIRST_DELAY_S, source.most_delay_s)
                say(urls, None if urls else "the answer names no engine")
        except NoAnswer as error:
            say(None, str(error))
        await asyncio.sleep(uniform(delay_s / 2, delay_s))
        await until(again, uniform(0, delay_s))
        delay_s = min(source.most_delay_s, delay_s * 2)
