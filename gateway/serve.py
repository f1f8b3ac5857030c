"""What `shadowlane serve` does: take the addresses, make the run's directory, start children, clean up."""

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from config.schema import Config
from gateway import deployment
from gateway.children import Child, Stage
from gateway.compose import Told, compose, share_sampled, to_json
from gateway.detect import kind_of
from gateway.listen import listen, shown
from gateway.loads import LoadTable
from gateway.log import logger
from gateway.metrics import forget_live_gauges
from gateway.probe import Place, ask_all
from gateway.supervisor import Supervisor

_GRACE_BEYOND_DRAIN_S = 3.0
_SHADOW_GRACE_S = 13.0
_ANALYSIS_GRACE_S = 10.0
_ARM_PROBE_S = 2.0
# Large request bodies otherwise make malloc give memory back and take it again for each (architecture §5).
_MALLOC = {
    "MALLOC_TRIM_THRESHOLD_": "268435456",
    "MALLOC_TOP_PAD_": "16777216",
    "MALLOC_MMAP_THRESHOLD_": "67108864",
}


def serve(config: Config, *, version: str, env: Mapping[str, str], out: TextIO | None = None) -> int:
    """Serve until SIGTERM or SIGINT; main thread only.  Gives the exit status: 0 after a clean drain.

    CannotListenError or deployment.UnusableError, before any process was started, when it cannot be served.
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
        if config.experiments:
            undo.callback(os.close, deployment.lock(config.state_dir))
        kinds = _kinds_of_arms(config, log)
        candidates = deployment.run_dir_candidates(config.state_dir, env.get("XDG_RUNTIME_DIR"))
        run_dir, mark = deployment.make_run_dir(candidates)
        undo.callback(os.close, mark)
        undo.callback(shutil.rmtree, run_dir, ignore_errors=True)

        told = compose(config, secret=secret, run_dir=str(run_dir), version=version, kinds=kinds)
        loads = LoadTable.create(run_dir / "loads.bin", config.workers, told.engines)
        undo.callback(loads.close)

        def died(child: Child) -> None:
            if child.stage is Stage.WORKER:
                loads.zero(next(w.index for w in told.workers if _worker_name(w.index) == child.name))
                forget_live_gauges(run_dir / "metrics", child.name)

        def draining() -> None:
            for bound in listening:  # or the kernel would go on accepting what no worker takes any more
                bound.close()

        def announce() -> bool:
            try:
                admin = (run_dir / "admin.addr").read_text().strip()
            except OSError:
                return False
            if admin:
                stream.write(_block(config, told, [shown(bound) for bound in listening], admin, version))
                stream.flush()
            return bool(admin)

        return Supervisor(
            children(told, [bound.fileno() for bound in listening], config),
            environment=_environment(env, run_dir),
            log=log,
            died=died,
            draining=draining,
            announce=announce,
        ).run()


def children(told: Told, fds: list[int], config: Config) -> list[Child]:
    """The processes of one run, as the supervisor is to keep them."""

    def argv(what: str, *more: str) -> tuple[str, ...]:
        start = (sys.executable, "-P", "-m", "gateway.cli", what, "--supervisor", str(os.getpid()))
        return (*start, "--log-level", config.log.level, "--log-format", config.log.format, *more)

    listed = ",".join(map(str, fds))
    analysis, shadow = to_json(told.analysis), None if told.shadow is None else to_json(told.shadow)
    kept = [Child("analysis", Stage.ANALYSIS, argv("_analysis"), analysis, grace_s=_ANALYSIS_GRACE_S)]
    if shadow is not None:
        kept.append(Child("shadow", Stage.SHADOW, argv("_shadow"), shadow, grace_s=_SHADOW_GRACE_S))
    kept += [
        Child(
            name=_worker_name(worker.index),
            stage=Stage.WORKER,
            argv=argv("_worker", "--fds", listed),
            spec=to_json(worker),
            fds=tuple(fds),
            grace_s=worker.limits.drain_s + _GRACE_BEYOND_DRAIN_S,
        )
        for worker in told.workers
    ]
    return kept


def _worker_name(index: int) -> str:
    return f"worker-{index}"


def _environment(env: Mapping[str, str], run_dir: Path) -> dict[str, str]:
    """What children see: ours, and where their packages are, since the working directory is not searched."""
    packages = str(Path(__file__).resolve().parent.parent)
    searched = [packages, *(p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p and p != packages)]
    return {
        **env,
        **{name: env.get(name, value) for name, value in _MALLOC.items()},
        "PROMETHEUS_MULTIPROC_DIR": str(run_dir / "metrics"),
        "PYTHONPATH": os.pathsep.join(searched),
    }


def _kinds_of_arms(config: Config, log: Any) -> dict[str, str]:
    """Which engine each arm is, as far as it answers now; one that does not is spoken to as plain OpenAI."""
    arms = [arm for experiment in config.experiments for arm in (experiment.control, *experiment.candidates)]
    keys = [None if arm.api_key is None else arm.api_key.get_secret_value() for arm in arms]
    places = [Place(arm.engine, key) for arm, key in zip(arms, keys, strict=True)]
    heard = ask_all(places, _ARM_PROBE_S) if places else []
    for place, answer in zip(places, heard, strict=True):
        if answer.error is not None:
            log.warning("arm does not answer; its copies will fail", arm=place.url, why=answer.error)
    answered = [(p, answer) for p, answer in zip(places, heard, strict=True) if answer.error is None]
    return {place.url: kind_of(answer.answers) for place, answer in answered}


def _block(config: Config, told: Told, addresses: list[str], admin: str, version: str) -> str:
    workers = f"{config.workers} worker{'s' if config.workers > 1 else ''}"
    lines = [f"Shadowlane {version}"]
    lines += [f"  listening on  http://{address}  ({workers})" for address in addresses]
    lines.append(f"  admin page    http://{admin}/")
    for fleet in config.fleets:
        lines.append(f"  fleet         {fleet.model or '(any model)'}, routed by {fleet.policy.name}")
        lines += [f"                {engine.url}  ({engine.kind})" for engine in fleet.engines]
    kinds = {arm.url: arm.kind for e in (told.shadow.experiments if told.shadow else ()) for arm in e.arms}
    for experiment in config.experiments:
        share = share_sampled(experiment, config.fleet_of(experiment))
        lines.append(f"  experiment    {experiment.name}: copies {share:.3g} of the conversations to")
        arms = [("control", experiment.control.engine), *((c.name, c.engine) for c in experiment.candidates)]
        lines += [f"                {name}  {url}  ({kinds[url]})" for name, url in arms]
    return "\n".join(lines) + "\n"
