"""What `shadowlane serve` does: take the addresses, make the run's directory, start children, clean up."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from config.complaint import ConfigError
from config.schema import Arm, Config, Experiment
from gateway.clients import tls
from gateway.clients.listen import listen, shown
from gateway.discovery import spec as discovery
from gateway.fleets.columns import Place as Column
from gateway.fleets.detect import kind_of
from gateway.kv import spec as kv
from gateway.kv.memory import clear_board, create_board
from gateway.launch import spec as launch
from gateway.launch.ports import NoPortLeft, Ports
from gateway.metrics import forget_live_gauges
from gateway.processes import deployment
from gateway.processes.amplified import fair
from gateway.processes.children import Child, Stage
from gateway.processes.compose import Told, compose, places
from gateway.processes.conductor import Conductor, Means, Plan
from gateway.processes.experiments import share_sampled
from gateway.processes.handover import to_json
from gateway.processes.log import logger
from gateway.processes.reload import Reader
from gateway.processes.rollout import name_of
from gateway.processes.supervisor import Supervisor
from gateway.processes.switching import FILE, KINDS, Switching
from gateway.processes.tables import Tables
from gateway.processes.tls import engine_tls
from gateway.recording import spec as recording
from gateway.recording.unrecorded import unrecorded
from wire.tls import BadTls

_GRACE_BEYOND_DRAIN_S = 3.0
_DISCOVERY_GRACE_S = 5.0
_LAUNCH_GRACE_S = 20.0  # beyond what the slowest engine may take to end
# They give way to all others, also while they end, and what they have heard is to be written: where nothing
# else is busy it takes them a moment.
_GIVING_WAY_GRACE_S = 20.0
_ARM_PROBE_S = 2.0
# As it comes, glibc gives memory back from 128 KB on and takes it again for the next body: that doubles what
# bodies of 256 KB and more cost.  So 32 MB are kept for what comes next, and only what is larger than most
# bodies (4 MB) is asked for, and given back, by itself.
_MALLOC = {
    "MALLOC_TRIM_THRESHOLD_": str(32 << 20),
    "MALLOC_TOP_PAD_": str(1 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(4 << 20),
}


def serve(
    config: Config,
    *,
    version: str,
    env: Mapping[str, str],
    out: TextIO | None = None,
    reread: Callable[[], Config] | None = None,
    file: Path | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT; main thread only.  Gives the exit status: 0 after a clean drain.

    `reread` gives the configuration as it is written now, and may raise ConfigError; `file` is where it is
    written.  CannotListenError or deployment.UnusableError, before any process was started, when it cannot be
    served.
    """
    stream = sys.stdout if out is None else out
    log = logger("supervisor", level=config.log.level, style=config.log.format)
    with ExitStack() as undo:
        listening = listen(config.listen)
        for bound in listening:
            undo.callback(bound.close)
        for bound in listen(config.admin):  # found out here, where one line tells it; analysis binds it again
            bound.close()
        secret = deployment.secret(config.state_dir)
        prepare = _Prepare(config.state_dir, undo)
        prepare.hold(config)  # before anything is asked: a second run ends here, in one line
        kinds = _Kinds(log)
        ports = Ports()
        try:
            config = ports(config)
        except NoPortLeft as error:
            raise deployment.UnusableError(str(error)) from None
        source = str(file or "settings")
        try:
            plan = Plan(config, fair(config, kinds(config), source))
        except ConfigError as error:
            raise deployment.UnusableError(str(error)) from None
        candidates = deployment.run_dir_candidates(config.state_dir, env.get("XDG_RUNTIME_DIR"))
        run_dir, mark = deployment.make_run_dir(candidates)
        undo.callback(os.close, mark)
        undo.callback(shutil.rmtree, run_dir, ignore_errors=True)

        tables = Tables(run_dir, config)
        undo.callback(tables.close)
        create_board(run_dir)

        def composed(plan: Plan, columns: Mapping[Column, int]) -> Told:
            fleet_slots, key_slots = tables.slots(plan.config)
            return compose(
                plan.config,
                secret=secret,
                run_dir=str(run_dir),
                version=version,
                kinds=plan.kinds,
                columns=columns,
                fleet_slots=fleet_slots,
                key_slots=key_slots,
                env=env,
            )

        told = composed(plan, tables.columns.proposed(places(config)))
        prepare(config, told)
        fds = [bound.fileno() for bound in listening]
        means = Means(composed, lambda told, config: children(told, fds, config), prepare, source)
        conductor = Conductor(plan, told, tables.columns, means, log)
        switching = Switching(config.state_dir / FILE, log)
        switching.remember(time.monotonic_ns())
        switching.configure(config, time.monotonic_ns())

        def read() -> Plan:
            found = config if reread is None else ports(reread())
            return Plan(found, fair(found, kinds(found), source))

        reader = Reader(read, _files(file, config), watch=config.reload == "watched")
        undo.callback(reader.close)

        def died(child: Child) -> None:
            if child.stage is Stage.WORKER:
                tables.zero(next(w.index for w in told.workers if name_of(w) == child.name))
                forget_live_gauges(run_dir / "metrics", child.name)
            elif child.stage is Stage.RECORDING:
                forget_live_gauges(run_dir / "metrics", child.name)
            elif child.stage is Stage.EVENTS:
                clear_board(run_dir)
                forget_live_gauges(run_dir / "metrics", child.name)
            conductor.died(child, time.monotonic_ns())
            switching.died(child)

        def started(child: Child) -> None:
            conductor.started(child)
            switching.started(child)

        def looked() -> float | None:
            now_ns = time.monotonic_ns()
            switching.configure(conductor.newest, now_ns)
            switching.look(now_ns)
            conductor.look(now_ns)
            return switching.due_in_s(now_ns)

        def draining() -> None:
            for bound in listening:  # or the kernel would go on accepting what no worker takes any more
                bound.close()
            conductor.drain()

        def heard(child: str, kind: str, body: bytes) -> None:
            if kind == "reload":
                reader.ask(body.decode())
            elif kind in KINDS:
                switching.heard(child, kind, body, time.monotonic_ns())
            else:
                conductor.heard(child, kind, body, time.monotonic_ns())

        def was_read() -> None:
            for one in reader.take():
                conductor.read(one, time.monotonic_ns())
            reader.watch = conductor.config.reload == "watched"
            reader.files = _files(file, conductor.config)

        def announce() -> bool:
            try:
                admin = (run_dir / "admin.addr").read_text().strip()
            except OSError:
                return False
            if admin:
                stream.write(_block(config, told, [shown(bound) for bound in listening], admin, version))
                stream.flush()
            return bool(admin)

        supervisor = Supervisor(
            children(told, fds, config),
            environment=_environment(env, run_dir),
            log=log,
            started=started,
            died=died,
            draining=draining,
            hangup=lambda: reader.ask("SIGHUP"),
            announce=announce,
            heard=heard,
            looked=looked,
            greeting=switching.greeting,
        )
        supervisor.watch(reader.fileno(), was_read)
        # Pauses are told before the rest, so that an experiment that comes paused takes no copy, and before
        # whoever asked is answered.
        conductor.conduct(supervisor, lambda config: switching.configure(config, time.monotonic_ns()))
        switching.conduct(supervisor)
        return supervisor.run()


def _files(file: Path | None, config: Config) -> tuple[Path, ...]:
    """Where the configuration is written."""
    if file is None:
        return ()
    return (file,) if config.keys_file is None else (file, file.parent / config.keys_file)


def children(told: Told, fds: list[int], config: Config) -> list[Child]:
    """The processes of one run, as the supervisor is to keep them."""

    def argv(what: str, *more: str) -> tuple[str, ...]:
        start = (sys.executable, "-P", "-m", "gateway.cli", what, "--supervisor", str(os.getpid()))
        return (*start, "--log-level", config.log.level, "--log-format", config.log.format, *more)

    def child(stage: Stage, spec: bytes, grace_s: float) -> Child:
        name = stage.name.lower()
        return Child(name, stage, argv(f"_{name}"), spec, grace_s=grace_s, hears=True)

    listed = ",".join(map(str, fds))
    kept = [child(Stage.ANALYSIS, to_json(told.analysis), _GIVING_WAY_GRACE_S)]
    if told.shadow is not None:
        kept.append(child(Stage.SHADOW, to_json(told.shadow), _GIVING_WAY_GRACE_S))
    sources = discovery.sources(config)
    if sources.sources:
        kept.append(child(Stage.DISCOVERY, discovery.to_json(sources), _DISCOVERY_GRACE_S))
    events = kv.kv_spec(told.workers[0])
    if kv.says_anything(events):
        kept.append(child(Stage.EVENTS, kv.to_json(events), _GIVING_WAY_GRACE_S))
    if told.launch is not None:
        slowest_s = max((engine.stop_s for engine in told.launch.engines), default=0.0)
        kept.append(child(Stage.LAUNCH, launch.to_json(told.launch), slowest_s + _LAUNCH_GRACE_S))
    if told.record is not None:
        kept.append(child(Stage.RECORDING, recording.to_json(told.record), _GIVING_WAY_GRACE_S))
    kept += [
        Child(
            name=name_of(worker),
            stage=Stage.WORKER,
            argv=argv("_worker", "--fds", listed),
            spec=to_json(worker),
            fds=tuple(fds),
            grace_s=worker.limits.drain_delay_s + worker.limits.drain_s + _GRACE_BEYOND_DRAIN_S,
            hears=True,
        )
        for worker in told.workers
    ]
    return kept


class _Prepare:
    """Gets ready for a configuration, before anything is told of it."""

    def __init__(self, state_dir: Path, undo: ExitStack) -> None:
        self._state_dir = state_dir
        self._undo = undo
        self._locked = False

    def __call__(self, config: Config, told: Told) -> None:
        """Try all TLS files, look for recordings; hold the state directory from the first configuration on
        that has experiments.

        Raises deployment.UnusableError.
        """
        try:
            tls.check(told.workers[0])
        except BadTls as error:
            raise deployment.UnusableError(f"tls: {error}") from error
        for lacking in unrecorded(config):
            raise deployment.UnusableError(lacking)
        self.hold(config)

    def hold(self, config: Config) -> None:
        """The state directory is ours, where there are logs to write.  Raises deployment.UnusableError."""
        if config.experiments and not self._locked:
            self._undo.callback(os.close, deployment.lock(self._state_dir))
            self._locked = True


def _environment(env: Mapping[str, str], run_dir: Path) -> dict[str, str]:
    """What children see: ours, and where their packages are, since the working directory is not searched."""
    packages = str(Path(__file__).resolve().parents[2])
    searched = [packages, *(p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p and p != packages)]
    return {
        **env,
        **{name: env.get(name, value) for name, value in _MALLOC.items()},
        "PROMETHEUS_MULTIPROC_DIR": str(run_dir / "metrics"),
        "PYTHONPATH": os.pathsep.join(searched),
    }


def _sent(config: Config, experiment: Experiment) -> str:
    """What an experiment's arms get."""
    if experiment.replay is not None:
        return f"replays {', '.join(map(str, experiment.replay.files))} to, in turn"
    share = _share(share_sampled(experiment, config.fleet_of(experiment)))
    return f"copies {share} to{', in turn' if experiment.mode != 'live' else ''}"


def _share(rate: float) -> str:
    """Which of the conversations; above 1 each is sent more than once."""
    if rate > 1:
        return f"each conversation {rate:.3g} times"
    return "all conversations" if rate == 1 else f"{rate:.3g} of the conversations"


class _Kinds:
    """Which engine each arm is, as far as it answers when it is first heard of; one that does not is spoken
    to as plain OpenAI.  It is asked once: an experiment that goes on must not change by being asked again."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._known: dict[str, str | None] = {}

    def __call__(self, config: Config) -> dict[str, str]:
        """The kinds of a configuration's arms."""
        arms = [
            arm
            for one in config.experiments
            for _name, _place, arm in one.arms
            if arm.launch is None  # these are asked once they run
        ]
        unknown = [arm for arm in arms if arm.engine not in self._known]
        if unknown:
            self._ask(unknown)
        kinds = {arm.engine: self._known[arm.engine] for arm in arms}
        return {url: kind for url, kind in kinds.items() if kind is not None}

    def _ask(self, arms: Sequence[Arm]) -> None:
        from gateway.fleets.probe import Place, ask_all  # a client of HTTP, which only arms are asked with

        places = [
            Place(
                arm.engine,
                None if arm.api_key is None else arm.api_key.get_secret_value(),
                engine_tls(arm.tls),
            )
            for arm in arms
        ]
        for place, answer in zip(places, ask_all(places, _ARM_PROBE_S), strict=True):
            if answer.error is not None:
                self._log.warning(
                    "arm does not answer; its copies will fail", arm=place.url, why=answer.error
                )
            self._known[place.url] = kind_of(answer.answers) if answer.error is None else None


def _block(config: Config, told: Told, addresses: list[str], admin: str, version: str) -> str:
    workers = f"{config.workers} worker{'s' if config.workers > 1 else ''}"
    lines = [f"Shadowlane {version}"]
    looked_up = discovery.sources(config).sources
    scheme = "http" if config.tls is None else "https"
    lines += [f"  listening on  {scheme}://{address}  ({workers})" for address in addresses]
    lines.append(f"  admin page    http://{admin}/")
    for fleet in config.fleets:
        lines.append(f"  fleet         {fleet.model or '(any model)'}, routed by {fleet.policy.name}")
        lines += [f"                {engine.url}  ({engine.kind})" for engine in fleet.engines]
        lines += [
            f"                engines of {one.told}"
            for one in looked_up
            if one.fleet == discovery.name_of(fleet)
        ]
    if told.record is not None:
        what = "with text" if told.record.text else "hashes, lengths and instants"
        share = _share(config.record.rate)
        lines.append(f"  recording     {share} to {told.record.to} ({what})")
    kinds = {arm.url: arm.kind for e in (told.shadow.experiments if told.shadow else ()) for arm in e.engines}
    for experiment in config.experiments:
        lines.append(f"  experiment    {experiment.name}: {_sent(config, experiment)}")
        lines += [
            f"                {name}  {arm.engine}  ({'launched' if arm.launch else kinds[arm.engine]})"
            for name, _place, arm in experiment.arms
        ]
    return "\n".join(lines) + "\n"
