"""What the launching process is told, built from the config."""

import hashlib
import json
from collections.abc import Iterator, Mapping

from config.launch import Launch, gpu_names
from config.schema import Arm, Candidate, Config, Experiment, Fleet
from gateway.launch.free import HOST
from gateway.launch.spec import LaunchedSpec, LaunchSpec, WatchedSpec
from gateway.launch.template import filled
from mirror.spec import CONTROL

PLAIN = "auto"  # the kind of an engine that is spoken to as plain OpenAI
_OURS = "SHADOWLANE_"


def launch_spec(config: Config, run_dir: str, env: Mapping[str, str]) -> LaunchSpec | None:
    """The spec, None where nothing is launched and no arm's GPUs are known.

    The config has its ports (`ports.Ports`); `env` is what the gateway was started with.
    """
    engines = tuple(_launched(config, one, name, arm) for one, name, arm in _arms(config) if arm.launch)
    watched = tuple(
        WatchedSpec(one.name, name, gpu_names(arm.gpus), arm.dcgm)
        for one, name, arm in _arms(config)
        if arm.launch or arm.dcgm or gpu_names(arm.gpus)
    )
    if not watched:
        return None
    return LaunchSpec(
        run_dir=run_dir,
        engines=engines,
        watched=watched,
        production_gpus=tuple(gpu for fleet in config.fleets for gpu in fleet.gpus),
        readings_s=config.mirror.readings_s,
        environment=tuple((name, value) for name, value in env.items() if not name.startswith(_OURS)),
    )


def mark(arm: Arm) -> str:
    """What the arm's engine is started with, in short: another command, environment or number of GPUs is
    another configuration, another port or patience is not.  Empty where it is not launched."""
    if arm.launch is None:
        return ""
    what = [arm.launch.command, sorted(arm.launch.env.items()), str(arm.launch.folder), gpus_wanted(arm)]
    return hashlib.blake2b(json.dumps(what).encode(), digest_size=8, person=b"shadowlane").hexdigest()


def presumed(experiment: Experiment, fleet: Fleet, kinds: Mapping[str, str]) -> dict[str, str]:
    """`kinds`, what arms were found to be, by URL, and what launched ones are taken to be until they are
    asked: what another one turned out to be, or else what all of the fleet's engines are written to be.

    An engine has no copies before it was asked, but where that is so, nothing changes then: where arms take
    turns a change costs a block.
    """
    urls = [arm.engine for _name, _place, arm in experiment.arms if arm.launch is not None]
    found = [kind for url in urls if (kind := kinds.get(url, PLAIN)) != PLAIN]
    said: set[str] = {engine.kind for engine in fleet.engines}
    if fleet.discover is not None:
        said.add(fleet.discover.kind)
    kind = found[0] if found else said.pop() if len(said) == 1 else PLAIN
    return {**dict.fromkeys(urls, kind), **kinds}


def gpus_wanted(arm: Arm) -> int:
    """How many GPUs a launched engine gets."""
    if isinstance(arm.gpus, tuple):
        return len(arm.gpus)
    return 1 if arm.gpus is None else arm.gpus


def argv_of(arm: Arm, launch: Launch, model: str | None, port: int) -> tuple[str, ...]:
    """The command with everything filled in."""
    values = _values(arm, model, port)
    return tuple(filled(word, values) for word in launch.command)


def _arms(config: Config) -> Iterator[tuple[Experiment, str, Arm]]:
    for experiment in config.experiments:
        for name, _place, arm in experiment.arms:
            yield experiment, name, arm


def _launched(config: Config, experiment: Experiment, name: str, arm: Arm) -> LaunchedSpec:
    launch = arm.launch
    assert launch is not None
    assert launch.port is not None, "the config has no ports yet"
    model = arm.model or config.fleet_of(experiment).model
    values = _values(arm, model, launch.port)
    return LaunchedSpec(
        experiment=experiment.name,
        arm=name,
        mark=mark(arm),
        argv=argv_of(arm, launch, model, launch.port),
        url=arm.engine,
        port=launch.port,
        env=tuple((variable, filled(text, values)) for variable, text in launch.env.items()),
        folder=None if launch.folder is None else str(launch.folder.absolute()),
        gpus=gpus_wanted(arm),
        named=gpu_names(arm.gpus),
        health=launch.health,
        ready_s=launch.ready_s,
        warm_up=launch.warm_up,
        restarts=launch.restarts,
        stop_s=launch.stop_s,
        api_key=None if arm.api_key is None else arm.api_key.get_secret_value(),
        model=arm.model,
        in_turn=experiment.mode != "live",
    )


def _values(arm: Arm, model: str | None, port: int) -> dict[str, str]:
    name = arm.name if isinstance(arm, Candidate) else CONTROL
    values = {"port": str(port), "host": HOST, "gpus": str(gpus_wanted(arm)), "name": name}
    return values if model is None else {**values, "model": model}
