"""What the discovery process is told, what it tells, and how a configuration looks with what was found."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from config.address import identity
from config.schema import Config, Discover, Engine, Fleet


@dataclass(frozen=True, slots=True)
class DnsSpec:
    """A name to resolve.  `port` is None for SRV records, which bring it; `server` None for the system's."""

    name: str
    port: int | None
    scheme: str = "http"
    server: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class FileSpec:
    """A file that lists URLs."""

    path: str


@dataclass(frozen=True, slots=True)
class KubernetesSpec:
    """A Service at an API server.  `namespace` None is the one that `token_file`'s folder names."""

    api: str
    service: str
    namespace: str | None
    port: str | int | None
    scheme: str
    token_file: str
    ca_file: str


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """Where a fleet's engines are looked up: one of the three."""

    fleet: str
    dns: DnsSpec | None = None
    file: FileSpec | None = None
    kubernetes: KubernetesSpec | None = None

    @property
    def told(self) -> str:
        """In words, for a log or a page."""
        if self.dns is not None:
            return f"dns {self.dns.name}"
        if self.file is not None:
            return f"file {self.file.path}"
        assert self.kubernetes is not None
        return f"kubernetes {self.kubernetes.namespace or ''}/{self.kubernetes.service}".replace(" /", " ")


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything the discovery process needs to know."""

    sources: tuple[SourceSpec, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A fleet's engines, or None where there is no usable answer; `error` says why."""

    fleet: str
    urls: tuple[str, ...] | None
    error: str | None = None


def name_of(fleet: Fleet) -> str:
    """What the fleet is called here and in logs."""
    return fleet.model or "default"


def sources(config: Config) -> Sources:
    """The sources of all fleets that have one."""
    return Sources(tuple(_source(fleet, fleet.discover) for fleet in config.fleets if fleet.discover))


def merged(config: Config, found: Mapping[str, Found]) -> Config:
    """The configuration with the engines that were found beside those it lists."""
    fleets = [
        fleet.model_copy(update={"engines": (*fleet.engines, *_engines(config, fleet, found))})
        for fleet in config.fleets
    ]
    return config.model_copy(update={"fleets": tuple(fleets)})


def clashes(config: Config, found: Found) -> list[str]:
    """Engines that were found and yet are not production's: an experiment has them."""
    arms = _arms(config)
    return [url for url in found.urls or () if identity(url) in arms]


def to_json(what: Sources | Found) -> bytes:
    """For a channel or a child's stdin."""
    return msgspec.json.encode(what)


def from_json(text: bytes) -> Sources:
    """What `to_json` wrote of sources."""
    return msgspec.json.decode(text, type=Sources)


def found_from_json(text: bytes) -> Found:
    """What `to_json` wrote of what was found."""
    return msgspec.json.decode(text, type=Found)


def _engines(config: Config, fleet: Fleet, found: Mapping[str, Found]) -> Iterator[Engine]:
    discover, told = fleet.discover, found.get(name_of(fleet))
    if discover is None or told is None:
        return
    known = {identity(engine.url) for engine in fleet.engines} | _arms(config)
    for url in told.urls or ():
        if identity(url) not in known:
            known.add(identity(url))
            yield Engine(
                url=url,
                kind=discover.kind,
                api_key=discover.api_key,
                model=discover.model,
                allow_paths=discover.allow_paths,
                role=discover.role,
                bootstrap_port=discover.bootstrap_port,
            )


def _arms(config: Config) -> set[tuple[str, str, int, str]]:
    return {
        identity(arm.engine) for experiment in config.experiments for _name, _place, arm in experiment.arms
    }


def _source(fleet: Fleet, discover: Discover) -> SourceSpec:
    name = name_of(fleet)
    if (dns := discover.dns) is not None:
        host, _, port = (dns.server or "").rpartition(":")
        server = (host.strip("[]"), int(port)) if dns.server is not None else None
        return SourceSpec(name, dns=DnsSpec(dns.name, dns.port, dns.scheme, server))
    if discover.file is not None:
        return SourceSpec(name, file=FileSpec(str(discover.file.absolute())))
    pods = discover.kubernetes
    assert pods is not None
    return SourceSpec(
        name,
        kubernetes=KubernetesSpec(
            pods.api, pods.service, pods.namespace, pods.port, pods.scheme,
            str(pods.token_file), str(pods.ca_file),
        ),
    )  # fmt: skip
