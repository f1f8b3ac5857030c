"""What each process is told: the checked config turned into plain values."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from analysis.spec import AnalysisSpec, ExperimentSpec, RaceSpec, Retention
from config.schema import Arm, Config, Engine, Experiment, Fleet
from config.tls import EngineTls, ListenTls
from gateway.admission.composed import composed, concurrency_of
from gateway.fleets.columns import Place
from gateway.golden.compose import golden_of
from gateway.launch.composed import launch_spec, mark, presumed
from gateway.launch.spec import LaunchSpec
from gateway.processes.embedders import embedders_of
from gateway.processes.kept import texts_of
from gateway.processes.prices import prices_of
from gateway.recording.spec import NAME as RECORDING
from gateway.recording.spec import RecordSpec
from gateway.spec import (
    CorsSpec,
    EngineSpec,
    EventsSpec,
    FleetSpec,
    HealthSpec,
    LearnSpec,
    LimitsSpec,
    SamplingSpec,
    SplitSpec,
    WorkerSpec,
)
from mirror.brakes import BrakeSpec
from mirror.spec import CONTROL, TWIN, ArmSpec, MirrorExperiment, ReplaySpec, ShadowSpec, SlotSpec
from wire.tls import ClientTls, ServerTls

NAMELESS_FLEET = "default"  # what a fleet without a model's name is called in logs and verdicts
_KEY_BYTES = 32
_SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Told:
    """The specs of all processes of one run.  `shadow` is None where there is no experiment, `record` where
    nothing is recorded, `launch` where no engine is launched and no arm's GPUs are read."""

    workers: tuple[WorkerSpec, ...]
    shadow: ShadowSpec | None
    analysis: AnalysisSpec
    record: RecordSpec | None = None
    launch: LaunchSpec | None = None

    @property
    def engines(self) -> int:
        """How many production engines there are: the load table's width."""
        return sum(len(fleet.engines) for fleet in self.workers[0].fleets)


def compose(
    config: Config,
    *,
    secret: bytes,
    run_dir: str,
    version: str,
    kinds: Mapping[str, str] = MappingProxyType({}),
    columns: Mapping[Place, int] | None = None,
    fleet_slots: Mapping[str | None, int] | None = None,
    key_slots: Mapping[str, int] | None = None,
    env: Mapping[str, str] = MappingProxyType({}),
) -> Told:
    """The specs for `config`.

    `secret` is the deployment's: salts and the prefix key are derived from it, so that a restart samples the
    same conversations and nobody outside can tell which.  `kinds` says what each arm's URL was found to be,
    `columns` which number each engine has, `fleet_slots` and `key_slots` which each fleet (by model) and key
    (by name) has among the limits; left out, they are counted.  `env` is what launched engines inherit; their
    ports and URLs are in the config by now.
    """
    if columns is None:
        columns = {place: number for number, place in enumerate(places(config))}
    health = HealthSpec(**{name: getattr(config.health, name) for name in HealthSpec.__dataclass_fields__})
    fleets = _fleets(config.fleets, columns, health)
    samplings = tuple(
        _sampling(config, experiment, secret)
        for experiment in config.experiments
        if experiment.replay is None  # workers have nothing to do with recorded traffic
    )
    admission = composed(config, fleet_slots, key_slots)
    limits = LimitsSpec(**{name: getattr(config.limits, name) for name in LimitsSpec.__dataclass_fields__})
    workers = tuple(
        WorkerSpec(
            index=index,
            workers=config.workers,
            fleets=fleets,
            experiments=samplings,
            limits=limits,
            run_dir=run_dir,
            lane_bytes=config.mirror.lane_bytes,
            copy_bytes=config.mirror.copy_bytes,
            prefix_key=_derived(secret, "prefix", _KEY_BYTES),
            access_share=config.log.access,
            log_failures=config.log.level != "error",
            trusted_proxies=config.trusted_proxies,
            session_headers=tuple(name.lower() for name in config.session_headers),
            cors=None if config.cors is None else CorsSpec(**config.cors.model_dump()),
            tls=listen_tls(config.tls),
            admission=admission,
            record=_recorded(config, secret),
        )
        for index in range(config.workers)
    )
    shadow = ShadowSpec(
        run_dir=run_dir,
        experiments=tuple(_mirrored(config, experiment, kinds, secret) for experiment in config.experiments),
        copy_bytes=config.mirror.copy_bytes,
        lane_bytes=config.mirror.lane_bytes,
        tells_ids=any(fleet.learn.copies and fleet.kv_events.read != "off" for fleet in config.fleets),
        readings_s=config.mirror.readings_s,
    )
    admin = config.admin_address
    analysis = AnalysisSpec(
        admin_host=admin.host,
        admin_port=admin.port,
        run_dir=run_dir,
        state_dir=str(config.state_dir.absolute()),
        experiments=tuple(_compared(config, experiment) for experiment in config.experiments),
        version=version,
        retention=Retention(config.logs.log_bytes, config.logs.old_bytes, config.logs.old_days),
        embedders=embedders_of(config),
        texts=texts_of(config),
        prices=None if config.prices is None else prices_of(config.prices, "prices in the configuration"),
    )
    return Told(
        workers,
        shadow if config.experiments else None,
        analysis,
        None if config.record.to is None else _recording(config, config.record.to, secret, run_dir),
        launch_spec(config, run_dir, env),
    )


def places(config: Config) -> list[Place]:
    """Every production engine, as the fleet's model and its URL."""
    return [(fleet.model, engine.url) for fleet in config.fleets for engine in fleet.engines]


def share_sampled(experiment: Experiment, fleet: Fleet) -> float:
    """The share of a fleet's conversations an experiment copies; above 1, how often each is sent.

    "auto" begins with one over the number of engines: every arm is one engine, so each then carries about
    what one of production's carries.  From there `mirror.matching` goes on, by what is in flight.
    """
    rate = experiment.sample.rate
    return 1.0 / max(1, len(fleet.engines)) if isinstance(rate, str) else rate


def _fleets(
    fleets: tuple[Fleet, ...], columns: Mapping[Place, int], health: HealthSpec
) -> tuple[FleetSpec, ...]:
    composed: list[FleetSpec] = []
    for fleet in fleets:
        engines = tuple(_engine(columns[fleet.model, engine.url], engine, fleet) for engine in fleet.engines)
        params: Mapping[str, object] = dict(fleet.policy.params)
        composed.append(
            FleetSpec(
                model=fleet.model,
                names=_names(fleet),
                default=fleet.default,
                engines=engines,
                policy=fleet.policy.name,
                params=params,
                health=health,
                split=_split(fleet),
                events=_events(fleet),
                learn=_learn(fleet),
                score=tuple((one.name, dict(one.params)) for one in fleet.score.policies),
                score_share=fleet.score.share,
            )
        )
    return tuple(composed)


def _events(fleet: Fleet) -> EventsSpec | None:
    said = fleet.kv_events
    if said.read == "off":
        return None
    return EventsSpec(**{name: getattr(said, name) for name in EventsSpec.__dataclass_fields__})


def _learn(fleet: Fleet) -> LearnSpec | None:
    said = fleet.learn
    if fleet.kv_events.read == "off" or not (said.tokenize or said.copies or said.ask_production):
        return None
    return LearnSpec(said.tokenize, said.copies, said.bytes_per_s, fleet.loras, said.ask_production)


def _split(fleet: Fleet) -> SplitSpec | None:
    roles = [engine.role for engine in fleet.engines]
    if fleet.discover is not None:  # those yet to be found have one too
        roles.append(fleet.discover.role)
    if all(role == "both" for role in roles):
        return None
    split = fleet.split
    return SplitSpec(split.style, split.min_bytes, split.decode.name, dict(split.decode.params))


def _names(fleet: Fleet) -> tuple[str, ...]:
    named = () if fleet.model is None else (fleet.model,)
    return (*named, *fleet.aliases, *fleet.loras)


def _engine(number: int, engine: Engine, fleet: Fleet) -> EngineSpec:
    return EngineSpec(
        id=number,
        url=engine.url,
        kind=engine.kind,
        api_key=None if engine.api_key is None else engine.api_key.get_secret_value(),
        model=engine.model,
        allow_paths=engine.allow_paths,
        concurrency=concurrency_of(engine, fleet),
        tls=engine_tls(engine.tls or fleet.tls) if engine.url.startswith("https:") else None,
        role=engine.role,
        bootstrap_port=engine.bootstrap_port,
    )


def listen_tls(tls: ListenTls | None) -> ServerTls | None:
    """What clients are shown, by the config."""
    if tls is None:
        return None
    return ServerTls(_file(tls.cert), _file(tls.key), _optional(tls.client_ca), tls.min_version)


def engine_tls(tls: EngineTls | None) -> ClientTls | None:
    """How an engine is believed, by the config."""
    if tls is None:
        return None
    return ClientTls(
        _optional(tls.ca), _optional(tls.cert), _optional(tls.key), tls.server_name, verify=tls.verify
    )


def _file(path: Path) -> str:
    return str(path.absolute())  # not resolved: a symlink that is swapped later must be followed anew


def _optional(path: Path | None) -> str | None:
    return None if path is None else _file(path)


def _sampling(config: Config, experiment: Experiment, secret: bytes) -> SamplingSpec:
    fleet = config.fleet_of(experiment)
    return SamplingSpec(
        experiment=experiment.name,
        fleet=fleet.model,
        rate=min(1.0, share_sampled(experiment, fleet)),
        salt=_derived(secret, f"sample {experiment.name}", _SALT_BYTES),
        brakes=brakes_of(experiment),
        by_session=experiment.sample.by == "session",
    )


def _recorded(config: Config, secret: bytes) -> SamplingSpec | None:
    if config.record.to is None:
        return None
    salt = _derived(secret, "sample recording", _SALT_BYTES)
    return SamplingSpec(RECORDING, None, config.record.rate, salt)


def _recording(config: Config, to: Path, secret: bytes, run_dir: str) -> RecordSpec:
    said = config.record
    return RecordSpec(
        run_dir=run_dir,
        to=_file(to),
        key=_derived(secret, "recording", _KEY_BYTES),
        text=said.text,
        text_keep_s=said.text_keep_s,
        redact=said.redact,
        redact_command=said.redact_command,
        block_tokens=said.block_tokens,
        packing=said.compress,
        file_bytes=said.file_bytes,
        file_s=said.file_s,
        keep_bytes=said.keep_bytes,
        keep_s=said.keep_s,
        copy_bytes=config.mirror.copy_bytes,
        lane_bytes=config.mirror.lane_bytes,
    )


def brakes_of(experiment: Experiment) -> BrakeSpec:
    """When an experiment pauses itself, by the config."""
    return BrakeSpec(**experiment.brakes.model_dump())


def _mirrored(
    config: Config, experiment: Experiment, kinds: Mapping[str, str], secret: bytes
) -> MirrorExperiment:
    fleet = config.fleet_of(experiment)
    kinds = presumed(experiment, fleet, kinds)
    candidates = (_arm(candidate.name, candidate, kinds) for candidate in experiment.candidates)
    twin = experiment.control.twin
    return MirrorExperiment(
        name=experiment.name,
        fleet=fleet.model,
        arms=(_arm(CONTROL, experiment.control, kinds), *candidates),
        twin=None if twin is None else _arm(TWIN, twin, kinds),
        # a LoRA adapter keeps its own name: only the names of the base model are rewritten
        models=() if fleet.model is None else (fleet.model, *fleet.aliases),
        max_inflight=experiment.max_inflight,
        timeout_s=experiment.timeout_s,
        brakes=brakes_of(experiment),
        rate=share_sampled(experiment, fleet),
        auto=isinstance(experiment.sample.rate, str) and experiment.replay is None,
        salt=_derived(secret, f"send again {experiment.name}", _SALT_BYTES),
        warm_up_s=experiment.warm_up_s,
        slots=_slots(experiment),
        replay=_replay(experiment, fleet),
        golden=golden_of(experiment.golden),
        logprobs=experiment.logprobs,
        scored_rows=experiment.scored_rows,
    )


def _slots(experiment: Experiment) -> SlotSpec | None:
    turns = experiment.turns
    return None if experiment.mode == "live" else SlotSpec(turns.slot_s, turns.switch, turns.ready_s)


def _replay(experiment: Experiment, fleet: Fleet) -> ReplaySpec | None:
    said = experiment.replay
    if said is None:
        return None
    files = tuple(map(_file, said.files))
    return ReplaySpec(files, said.rounds, said.speed, said.requests, said.seconds, _names(fleet))


def _arm(name: str, arm: Arm, kinds: Mapping[str, str]) -> ArmSpec:
    key = arm.api_key
    headers = () if key is None else (("authorization", f"Bearer {key.get_secret_value()}"),)
    return ArmSpec(
        name=name,
        url=arm.engine,
        kind=kinds.get(arm.engine, "auto"),
        model=arm.model,
        headers=headers,
        tls=engine_tls(arm.tls),
        mark=mark(arm),
    )


def _compared(config: Config, experiment: Experiment) -> ExperimentSpec:
    return ExperimentSpec(
        name=experiment.name,
        fleet=config.fleet_of(experiment).model or NAMELESS_FLEET,
        candidates=tuple(candidate.name for candidate in experiment.candidates),
        alpha=experiment.alpha,
        margin=experiment.margin,
        window_s=experiment.window_s,
        calibration_s=experiment.calibration_s,
        calibration_pairs=experiment.calibration_pairs,
        slo_ttft_ms=experiment.slo.ttft_ms,
        slo_tpot_ms=experiment.slo.tpot_ms,
        mode=experiment.mode,
        forced_pairs=experiment.forced_pairs,
        scored_pairs=experiment.scored_pairs,
        tokenizer="" if experiment.tokenizer is None else str(experiment.tokenizer.absolute()),
        engines=tuple(map(_identity, (experiment.control, *experiment.candidates))),
        similarity="" if experiment.similarity is None else experiment.similarity.model,
        golden=experiment.golden is not None,
        twin="" if experiment.control.twin is None else _identity(experiment.control.twin),
        traffic=_traffic(experiment),
        race=_race(experiment),
    )


def _race(experiment: Experiment) -> RaceSpec | None:
    said = experiment.race
    if said is None:
        return None
    return RaceSpec(said.beaten, said.first_rung, said.metric or "", said.accept_outputs)


def _traffic(experiment: Experiment) -> str:
    """What tells the traffic from another: of live traffic nothing, of recorded what is replayed, and how."""
    said = experiment.replay
    if said is None:
        return ""
    parts = [*map(_file, said.files), said.speed, said.requests, said.seconds, experiment.turns.slot_s]
    return " ".join(map(str, parts))


def _identity(arm: Arm) -> str:
    """What tells an arm's engine from another: where it is, or what it is launched with."""
    return f"{mark(arm) or arm.engine} {arm.model or ''}".strip()


def _derived(secret: bytes, purpose: str, size: int) -> bytes:
    return hashlib.blake2b(purpose.encode(), digest_size=size, key=secret[:64], person=b"shadowlane").digest()
