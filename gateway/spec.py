"""What a worker is told: plain values, built from the config by `gateway.processes.compose`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mirror.brakes import BrakeSpec
from wire.tls import ClientTls, ServerTls


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One production engine.  `id` is its column in the shared load table, unique over all fleets."""

    id: int
    url: str
    kind: str = "auto"
    api_key: str | None = field(default=None, repr=False)
    model: str | None = None  # its own name for the model, where that differs from the fleet's
    allow_paths: tuple[str, ...] = ()
    concurrency: int | None = None  # requests at a time
    tls: ClientTls | None = None  # how an https:// engine is believed; None: by the system's authorities
    role: str = "both"  # prefill, decode or both
    bootstrap_port: int = 8998  # SGLang's, of an engine that prefills


@dataclass(frozen=True, slots=True)
class HealthSpec:
    """How engines are probed, and when one is left out."""

    probe_every_s: float = 2.0
    probe_timeout_s: float = 5.0
    quiet_s: float = 10.0  # a probe without an answer counts only after this much silence
    failures: int = 3  # refused connections and failed probes in a row
    error_share: float = 0.5  # of 5xx among the answers of a window
    error_answers: int = 5  # fewer say nothing
    error_window_s: float = 10.0
    timeouts: int = 2  # requests without a first token in a row
    ejection_s: float = 5.0  # the first; each further one takes twice as long
    ejection_max_s: float = 120.0
    ejected_share: float = 0.5  # of a fleet's engines, at most; one may always be, the last good one never


@dataclass(frozen=True, slots=True)
class SplitSpec:
    """How a request is split between an engine that computes its prompt and one that continues it."""

    style: str = "auto"  # vllm or sglang
    min_bytes: int = 0  # prompts below this are not split
    policy: str = "least_load"  # of the engine that continues
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventsSpec:
    """How a fleet's events are read.

    `publish` and `replay` are where an engine publishes that does not say so itself, `{host}` standing for
    its host; `ranks` are on the ports from there on.  `bind` is where engines connect to that publish so.
    `drain`: TensorRT-LLM's are read by taking them away, and told again at `publish_drained`.
    """

    publish: str | None = None
    replay: str | None = None
    ranks: int = 1
    topic: str = ""
    bind: str | None = None
    drain: bool = False
    publish_drained: str | None = None
    most_blocks: int = 262_144


@dataclass(frozen=True, slots=True)
class LearnSpec:
    """How it is learned what a fleet's prompts become.  `loras` are adapters among the fleet's names;
    `production`: its own requests may ask for their ids."""

    tokenize: bool = True
    copies: bool = True
    bytes_per_s: int = 128 << 10
    loras: tuple[str, ...] = ()
    production: bool = False


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """The engines that serve one model.  `names` are all the names a request may use for it."""

    model: str | None
    names: tuple[str, ...]
    default: bool
    engines: tuple[EngineSpec, ...]
    policy: str = "prefix_cost"
    params: Mapping[str, Any] = field(default_factory=dict)
    health: HealthSpec = HealthSpec()
    split: SplitSpec | None = None  # None: no engine has a role
    events: EventsSpec | None = None  # None: they are not read
    learn: LearnSpec | None = None  # None: nothing is, and events are of no use
    score: tuple[tuple[str, Mapping[str, Any]], ...] = ()  # policies that are asked, and not obeyed
    score_share: float = 0.0  # of the requests they are asked about


@dataclass(frozen=True, slots=True)
class SamplingSpec:
    """Which conversations of a fleet an experiment takes: a share `rate` of them, chosen by salted hash.

    `by_session`: of those whose clients name a session, the session's name is hashed.  `observed`: of a share
    of them production's own answers are handed over, too.
    """

    experiment: str
    fleet: str | None
    rate: float
    salt: bytes = field(repr=False)
    brakes: BrakeSpec = field(default_factory=BrakeSpec)
    by_session: bool = False
    observed: float = 1.0


@dataclass(frozen=True, slots=True)
class LimitsSpec:
    """Bounds on what one request may take: bytes, and seconds of silence."""

    body_bytes: int = 128 << 20
    read_bytes: int = 8 << 20
    head_bytes: int = 64 << 10
    connect_timeout_s: float = 5.0
    first_token_timeout_s: float = 600.0
    idle_timeout_s: float = 120.0
    drain_s: float = 30.0
    drain_delay_s: float = 0.0
    leaving_s: float = 600.0
    retries: int = 2
    retry_share: float = 0.2
    retry_per_s: float = 10.0
    retry_wait_s: float = 2.0
    hold_head_ms: float = 250.0
    connections: int = 16_384
    connections_per_ip: int = 0
    engine_connections: int = 4_096
    engine_idle_s: float = 4.0
    resolve_s: float = 30.0
    handshake_timeout_s: float = 10.0
    head_timeout_s: float = 10.0
    keep_alive_s: float = 75.0
    body_timeout_s: float = 20.0
    body_bytes_per_s: int = 240
    uploads_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True)
class KeySpec:
    """One client's key and limits.  `slot` is its column in the shared table; None: no limit of that kind."""

    name: str
    slot: int
    hash: str | None = field(default=None, repr=False)  # None: who comes without a key
    weight: float = 1.0
    priority: int = 1  # the class: 0 is served first
    requests_per_s: float | None = None
    requests_burst: int = 1
    prompt_tokens_per_s: float | None = None
    prompt_tokens_burst: int = 1
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class RoomSpec:
    """How much a fleet takes at a time, and what becomes of a request that finds no room there.

    `slot` is its column in the shared table; what each engine takes is in its own spec.
    """

    model: str | None
    slot: int = 0
    concurrency: int | None = None
    fallback: str | None = None  # the model of the fleet that is tried instead
    shorten_to: int | None = None  # output tokens of requests that had to wait
    waits: bool = True

    @property
    def name(self) -> str:
        return self.model or "default"


@dataclass(frozen=True, slots=True)
class AdmissionSpec:
    """Who may ask how much at a time.  `everyone` holds the limits of all keys together."""

    keys: tuple[KeySpec, ...]
    everyone: KeySpec
    rooms: tuple[RoomSpec, ...]
    bytes_per_token: float = 4.0
    queue_entries: int = 1024
    queue_bytes: int = 256 << 20
    queue_wait_s: float = 30.0
    trickle: int = 8


@dataclass(frozen=True, slots=True)
class CorsSpec:
    """Which web pages may ask.  "*" stands for every origin, and for every header that is asked for."""

    allow_origins: tuple[str, ...]
    allow_headers: tuple[str, ...] = ("*",)
    expose_headers: tuple[str, ...] = ()
    allow_credentials: bool = False
    max_age_s: float = 600.0


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """Everything one worker process needs to know."""

    index: int
    workers: int
    fleets: tuple[FleetSpec, ...]
    experiments: tuple[SamplingSpec, ...]
    limits: LimitsSpec
    run_dir: str
    lane_bytes: int
    copy_bytes: int
    prefix_key: bytes = field(repr=False)
    access_share: float = 0.0  # of good requests, that are logged
    log_failures: bool = True
    trusted_proxies: tuple[str, ...] = ()
    session_headers: tuple[str, ...] = ()  # in lower case
    cors: CorsSpec | None = None
    tls: ServerTls | None = None  # None: clients speak plain HTTP
    admission: AdmissionSpec | None = None  # None: no keys and no limits
    record: SamplingSpec | None = None  # what is written down, of all fleets; None: nothing
