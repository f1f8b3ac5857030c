"""What the launching process is told, and what it tells."""

from dataclasses import dataclass, field

import msgspec


@dataclass(frozen=True, slots=True)
class LaunchedSpec:
    """One engine to start and to keep running for an arm of an experiment.

    `mark` is what it is started with, in short: engines of the same mark are configured alike.  `argv`,
    `env` and `folder` are filled in already, but for the GPUs' names.  `gpus` free ones are wanted, or,
    where there are some, the `named`.  It is given up after `restarts` deaths in a row.  `model` is what it
    is asked for while it warms up, None: the first model it lists.  `in_turn`: it runs while it is its turn.
    """

    experiment: str
    arm: str
    mark: str
    argv: tuple[str, ...] = field(repr=False)
    url: str
    port: int
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    folder: str | None = None
    gpus: int = 0
    named: tuple[str, ...] = ()
    health: str | None = None
    ready_s: float = 1800.0
    warm_up: int = 8
    restarts: int = 5
    stop_s: float = 15.0
    api_key: str | None = field(default=None, repr=False)
    model: str | None = None
    in_turn: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Whose engine it is."""
        return self.experiment, self.arm


@dataclass(frozen=True, slots=True)
class WatchedSpec:
    """An arm whose GPUs are read.  `gpus` are those of an engine that is not launched; `dcgm` the URL of the
    exporter that tells of them, None: NVML does."""

    experiment: str
    arm: str
    gpus: tuple[str, ...] = ()
    dcgm: str | None = None


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Everything the launching process needs to know.

    `production_gpus` are never given to an engine.  `environment` is what the gateway itself was started
    with: engines get it, and not what its own processes are told beside it.
    """

    run_dir: str
    engines: tuple[LaunchedSpec, ...] = ()
    watched: tuple[WatchedSpec, ...] = ()
    production_gpus: tuple[str, ...] = ()
    readings_s: float = 1.0
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class EngineTold:
    """How one launched engine fares.

    `state` is a `life.State`, `why` what it waits for or died of, `lines` the last it wrote before it died.
    `kind` is what it speaks, once it was asked.
    """

    experiment: str
    arm: str
    mark: str
    url: str
    state: str
    why: str | None = None
    kind: str | None = None
    pid: int | None = None
    gpus: tuple[str, ...] = ()
    starts: int = 0
    deaths: int = 0
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HardwareTold:
    """What reads GPUs: `source` as it names itself, None where there is none, and `error` says why."""

    source: str | None = None
    gpus: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class LaunchTold:
    """All that the launching process tells the supervisor."""

    engines: tuple[EngineTold, ...] = ()
    hardware: HardwareTold | None = None


def to_json(what: LaunchSpec | LaunchTold) -> bytes:
    """For a channel or a child's stdin."""
    return msgspec.json.encode(what)


def from_json(text: bytes) -> LaunchSpec:
    """What `to_json` wrote of a spec."""
    return msgspec.json.decode(text, type=LaunchSpec)


def told_from_json(text: bytes) -> LaunchTold:
    """What `to_json` wrote of what is told."""
    return msgspec.json.decode(text, type=LaunchTold)
