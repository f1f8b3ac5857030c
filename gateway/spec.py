"""What a worker is told: plain values, built from the config by `gateway.compose`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One production engine.  `id` is its column in the shared load table, unique over all fleets."""

    id: int
    url: str
    kind: str = "auto"
    api_key: str | None = field(default=None, repr=False)
    model: str | None = None  # its own name for the model, where that differs from the fleet's
    allow_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """The engines that serve one model.  `names` are all the names a request may use for it."""

    model: str | None
    names: tuple[str, ...]
    default: bool
    engines: tuple[EngineSpec, ...]
    policy: str = "prefix_cost"
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SamplingSpec:
    """Which conversations of a fleet an experiment takes: a share `rate` of them, chosen by salted hash."""

    experiment: str
    fleet: str | None
    rate: float
    salt: bytes = field(repr=False)


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
    retries: int = 2
    hold_head_ms: float = 250.0


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
