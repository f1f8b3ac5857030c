"""How a child process comes to life: its spec read, its log and signals set up, its loop run to the end."""

import asyncio
import ctypes
import gc
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import uvloop

from gateway import metrics
from gateway.processes import handover
from gateway.processes.channel import Channel
from gateway.processes.line import Line
from gateway.processes.log import configure
from mirror.brakes import Trip
from mirror.switched import Switched

if TYPE_CHECKING:
    from mirror.spec import MirrorExperiment
    from mirror.traffic import Recorded

_PR_SET_PDEATHSIG = 1
_AFTER_OTHERS = 10
# A relay makes many short-lived objects and no cycles (tests/gateway/test_no_cycles.py): collections are for
# what is overlooked.  One is a pause for all streams, as long as what it looks at is much: 5,000 objects take
# about 1 ms, 100,000 took 30.  So the young are looked at often, and the old, at 5,000 streams hundreds of
# thousands, hardly ever: once there were made a million more than went.
_GC_THRESHOLDS = (5_000, 200, 10)

Serve = Callable[[asyncio.Event, Any, Line], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a child learns from its command line.

    `supervisor` is the pid it must not outlive, `control` the descriptor of its channel to it, if any.
    """

    supervisor: int | None = None
    log_level: str = "info"
    log_format: str = "auto"
    control: int | None = None


def run_worker(spec_json: bytes, fds: Sequence[int], setting: Setting) -> int:
    """Life of a worker: `fds` are the listening sockets it inherits.  Gives the exit status."""
    spec = handover.worker_from_json(spec_json)
    process = f"worker-{spec.index}"
    metrics.write_as(process)
    from gateway.processes.worker import serve_worker

    async def serve(stop: asyncio.Event, log: Any, line: Line) -> None:
        listeners = [socket.socket(fileno=fd) for fd in fds]
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        changes = line.changes(handover.worker_from_json)
        unreached = _told_rarely(line)
        await serve_worker(
            spec,
            listeners,
            stop,
            log,
            changes=changes,
            unreached=unreached,
            switched=_switched(line),
            tripped=_tripped(line),
        )

    return _live(process, serve, setting)


def run_shadow(spec_json: bytes, setting: Setting) -> int:
    """Life of the shadow process.  Gives the exit status."""
    spec = handover.shadow_from_json(spec_json)
    from mirror.braking import ShadowBrakes
    from mirror.readiness import Readiness
    from mirror.shadow import serve_shadow

    async def serve(stop: asyncio.Event, log: Any, line: Line) -> None:
        readiness = Readiness()
        line.hears("ready", readiness.told)
        await serve_shadow(
            spec,
            stop,
            changes=line.changes(handover.shadow_from_json),
            readiness=readiness,
            switched=_switched(line),
            brakes=ShadowBrakes(_tripped(line)),
            recorded=_recorded(log),
            call=_call(line),
        )

    return _live(
        "shadow", serve, setting, gives_way=True, dies=True
    )  # what it cannot keep up with is dropped


def run_analysis(spec_json: bytes, setting: Setting) -> int:
    """Life of the analysis process.  Gives the exit status."""
    spec = handover.analysis_from_json(spec_json)
    from analysis.process import serve_analysis
    from analysis.supervision import Supervision

    async def serve(stop: asyncio.Event, _log: Any, line: Line) -> None:
        supervision = Supervision(line.say)
        line.hears("state", supervision.told)
        line.hears("switches", supervision.switches.told)
        changes = line.changes(handover.analysis_from_json)
        await serve_analysis(spec, stop, changes=changes, supervision=supervision)

    return _live("analysis", serve, setting, dies=True)


def run_discovery(spec_json: bytes, setting: Setting) -> int:
    """Life of the discovery process.  Gives the exit status."""
    from gateway.discovery.process import serve_discovery
    from gateway.discovery.spec import from_json

    spec = from_json(spec_json)

    async def serve(stop: asyncio.Event, log: Any, line: Line) -> None:
        await serve_discovery(spec, stop, log, line)

    return _live("discovery", serve, setting)


def run_events(spec_json: bytes, setting: Setting) -> int:
    """Life of the process that reads KV events.  Gives the exit status."""
    metrics.write_as("events")
    from gateway.kv.process import serve_events
    from gateway.kv.spec import from_json

    spec = from_json(spec_json)

    async def serve(stop: asyncio.Event, log: Any, line: Line) -> None:
        await serve_events(spec, stop, log, line)

    return _live("events", serve, setting, gives_way=True, dies=True)  # engines may say much at once


def run_recording(spec_json: bytes, setting: Setting) -> int:
    """Life of the process that writes traffic down.  Gives the exit status."""
    metrics.write_as("recording")
    from gateway.recording.process import serve_recording
    from gateway.recording.spec import from_json

    spec = from_json(spec_json)

    async def serve(stop: asyncio.Event, log: Any, line: Line) -> None:
        await serve_recording(spec, stop, log, line.changes(from_json))

    return _live("recording", serve, setting, gives_way=True, dies=True)  # it may fall behind, and then drops


def run_launch(spec_json: bytes, setting: Setting) -> int:
    """Life of the process that starts engines and reads GPUs.  Gives the exit status."""
    from gateway.launch.process import serve_launch
    from gateway.launch.spec import from_json

    spec = from_json(spec_json)

    async def serve(stop: asyncio.Event, log: Any, line: Line) -> None:
        await serve_launch(spec, stop, log, line)

    return _live("launch", serve, setting)


def _recorded(log: Any) -> Callable[["MirrorExperiment"], "Recorded"]:
    """Read what an experiment replays: not loaded where none does.  Why it cannot be is told once."""
    told: dict[str, str] = {}

    def read(experiment: "MirrorExperiment") -> "Recorded":
        from gateway.recording.replayed import replayable

        try:
            return replayable(experiment)
        except (ValueError, OSError) as error:
            why = str(error)
            if told.get(experiment.name) != why:
                told[experiment.name] = why
                log.warning("nothing is replayed", experiment=experiment.name, why=why)
            raise

    return read


def _switched(line: Line) -> Switched:
    """The supervisor's word on pauses: its first is in the channel since before this process was."""

    def obeyed(number: int) -> None:
        line.say("switched", json.dumps({"number": number}).encode())

    switched = Switched(obeyed)
    line.hears("switch", switched.told)
    line.come()
    return switched


def _call(line: Line) -> Callable[[str, str | None], bool]:
    """Tell the supervisor whose turn it is among engines that are launched."""
    return lambda experiment, arm: line.say("turn", json.dumps([experiment, arm]).encode())


def _tripped(line: Line) -> Callable[[str, Trip], None]:
    """Tell the supervisor what a brake says."""

    def tripped(experiment: str, trip: Trip) -> None:
        line.say("tripped", json.dumps({"experiment": experiment, "trip": asdict(trip)}).encode())

    return tripped


def _told_rarely(line: Line) -> Callable[[str], None]:
    """Tell of lost engines, each fleet's once a second at most."""
    last_s: dict[str, float] = {}

    def unreached(fleet: str) -> None:
        now_s = time.monotonic()
        if now_s - last_s.get(fleet, float("-inf")) >= 1.0:
            last_s[fleet] = now_s
            line.say("unreached", fleet.encode())

    return unreached


def _live(
    process: str, serve: Serve, setting: Setting, *, gives_way: bool = False, dies: bool = False
) -> int:
    """`gives_way`: requests come first, but not while it starts, which would take long where all is busy.

    `dies`: it ends when memory runs out, and is started again.  What was half done then stands for ever
    otherwise: a connection that was accepted and nobody reads, a copy that counts as under way.
    """
    log = configure(process, level=setting.log_level, style=setting.log_format)
    if setting.supervisor is not None and not _die_with(setting.supervisor):
        log.error("the supervisor is gone")
        return 1
    gc.enable()  # all is loaded (cli.main)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor hears Ctrl-C and says when to end

    async def life() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        control = setting.control
        channel = Channel.pair()[0] if control is None else Channel(socket.socket(fileno=control))
        line = Line(channel)
        if dies:
            asyncio.get_running_loop().set_exception_handler(_dies_without_memory(log))
        if gives_way:
            os.nice(_AFTER_OTHERS)
        try:
            await serve(stop, log, line)
        finally:
            line.close()

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(life())
    except Exception:
        log.exception("failed")
        return 1
    return 0


def _dies_without_memory(log: Any) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """An event loop's exception handler.  Nothing is put in order, for that would take memory."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), MemoryError):
            loop.default_exception_handler(context)
            return
        try:
            log.error("out of memory: it ends, and is started again")
        finally:
            os._exit(1)

    return handle


def _die_with(supervisor: int) -> bool:
    """Have the kernel send SIGTERM to this process when its parent dies (Linux; elsewhere nothing).

    False when the parent died before that could be asked for.
    """
    if sys.platform == "linux":
        try:
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        except (OSError, AttributeError):
            return True  # a libc without prctl: the supervisor's own clean-up has to do
    return os.getppid() == supervisor
