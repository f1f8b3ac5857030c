"""What each process is told: the checked config turned into plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from analysis.spec import AnalysisSpec, Retention
from config.schema import Config
from gateway.admission.composed import composed
from gateway.fleets.columns import Place
from gateway.launch.composed import launch_spec
from gateway.launch.spec import LaunchSpec
from gateway.processes.deployment import derived
from gateway.processes.embedders import embedders_of
from gateway.processes.experiments import compared, mirrored, sampling_of
from gateway.processes.fleets import fleets_of
from gateway.processes.kept import kept_texts
from gateway.processes.prices import prices_of
from gateway.processes.tls import absolute, listen_tls
from gateway.recording.spec import NAME as RECORDING
from gateway.recording.spec import RecordSpec
from gateway.spec import CorsSpec, HealthSpec, LimitsSpec, SamplingSpec, WorkerSpec
from mirror.spec import ShadowSpec

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
    fleets = fleets_of(config.fleets, columns, health)
    samplings = tuple(
        sampling_of(config, experiment, secret)
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
            prefix_key=derived(secret, "prefix", _KEY_BYTES),
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
        experiments=tuple(mirrored(config, experiment, kinds, secret) for experiment in config.experiments),
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
        experiments=tuple(compared(config, experiment) for experiment in config.experiments),
        version=version,
        retention=Retention(config.logs.log_bytes, config.logs.old_bytes, config.logs.old_days),
        embedders=embedders_of(config),
        texts=kept_texts(config),
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


def _recorded(config: Config, secret: bytes) -> SamplingSpec | None:
    if config.record.to is None:
        return None
    salt = derived(secret, "sample recording", _SALT_BYTES)
    return SamplingSpec(RECORDING, None, config.record.rate, salt)


def _recording(config: Config, to: Path, secret: bytes, run_dir: str) -> RecordSpec:
    said = config.record
    return RecordSpec(
        run_dir=run_dir,
        to=absolute(to),
        key=derived(secret, "recording", _KEY_BYTES),
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
