"""What the process that reads KV events is told: plain values that `processes.compose` builds."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from gateway.spec import EventsSpec, WorkerSpec
from wire.tls import ClientTls

MUTE: Final = frozenset({"openai", "tgi", "llamacpp"})
"""Kinds of engines that publish nothing."""


@dataclass(frozen=True, slots=True)
class KvEngine:
    """One engine whose events are wanted.  `id` is its column in the load table."""

    id: int
    url: str
    kind: str
    events: EventsSpec
    fleet: str = ""
    api_key: str | None = field(default=None, repr=False)
    tls: ClientTls | None = None


@dataclass(frozen=True, slots=True)
class KvSpec:
    """Everything the process needs to know."""

    run_dir: str
    engines: tuple[KvEngine, ...] = ()


def kv_spec(worker: WorkerSpec) -> KvSpec:
    """The engines of all fleets whose events are read, from what a worker is told."""
    return KvSpec(
        worker.run_dir,
        tuple(
            KvEngine(
                engine.id,
                engine.url,
                engine.kind,
                fleet.events,
                fleet.model or "default",
                engine.api_key,
                engine.tls,
            )
            for fleet in worker.fleets
            if fleet.events is not None
            for engine in fleet.engines
        ),
    )


def says_anything(spec: KvSpec) -> bool:
    """Whether there is an engine that may publish."""
    return any(engine.kind not in MUTE for engine in spec.engines)


def to_json(spec: KvSpec) -> bytes:
    """For a channel or a child's stdin; it holds keys."""
    return msgspec.json.encode(spec)


def from_json(text: bytes) -> KvSpec:
    """What `to_json` wrote."""
    return msgspec.json.decode(text, type=KvSpec)


def binds(engines: Iterable[KvEngine]) -> dict[str, list[KvEngine]]:
    """The addresses where engines connect to, and which are expected there."""
    found: dict[str, list[KvEngine]] = {}
    for engine in engines:
        if engine.events.bind is not None:
            found.setdefault(engine.events.bind, []).append(engine)
    return found
