"""What a worker serves with: the parts every connection and request of one process share."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import random
from time import monotonic
from typing import TYPE_CHECKING

from gateway.access_log import AccessLog
from gateway.admission.admit import Admission
from gateway.clients.cors import Cors
from gateway.clients.doors import Doors
from gateway.clients.trust import Trust
from gateway.fleets.fleet import Engine, Fleets
from gateway.lane_link import LaneLink
from gateway.retry import Retries
from gateway.spec import LimitsSpec, WorkerSpec
from gateway.tallies import Tallies as Tallies
from wire.upstream import Pool

if TYPE_CHECKING:
    from gateway.attempt import Attempt
    from gateway.clients.server import Connection
    from gateway.clients.tunnel import Tunnel
    from gateway.relay import Relay


def _raised(_what: str, error: Exception) -> None:
    raise error


@dataclass(slots=True)
class Service:
    """One worker's engines, limits, lane and tallies."""

    loop: asyncio.AbstractEventLoop
    fleets: Fleets
    pools: dict[int, Pool]
    limits: LimitsSpec
    prefix_key: bytes
    lane: LaneLink
    opened_paths: frozenset[str] = frozenset()
    trust: Trust | None = None  # None: nobody is trusted
    sessions: frozenset[bytes] = frozenset()  # header fields, in lower case, by which clients name a session
    cors: Cors | None = None  # None: the engines' own word is passed on
    tallies: Tallies = field(default_factory=Tallies)
    active: "set[Attempt]" = field(default_factory=set)
    tunnels: "set[Tunnel]" = field(default_factory=set)
    waiting: "set[Relay]" = field(default_factory=set)  # requests to be sent again after a while
    connections: "set[Connection]" = field(default_factory=set)
    doors: Doors = field(default_factory=lambda: Doors(1 << 31))
    # What each unfinished request body had brought when its present span of time began: instant and bytes.
    uploads: "dict[Connection, tuple[int, int]]" = field(default_factory=dict)
    retries: Retries = field(default_factory=lambda: Retries(random, monotonic()))
    access: AccessLog = field(default_factory=lambda: AccessLog("worker", failures=False, rng=random))
    admission: Admission | None = None  # None: no keys and no limits
    failed: Callable[[str, Exception], None] = _raised  # told of what went wrong in work for all requests
    draining: bool = False
    copies: bool = False  # whether requests are handed to the lane: to experiments, or to be recorded
    generation: int = 0  # of the rules by which heads are read
    least_bytes: int = 0  # a whole body up to this size meets none of the limits on bodies

    def __post_init__(self) -> None:
        self.limit(self.limits)

    def limit(self, limits: LimitsSpec) -> None:
        """Take over the bounds on requests."""
        self.limits = limits
        self.least_bytes = min(limits.body_bytes, limits.read_bytes)

    def know_clients(self, spec: WorkerSpec) -> None:
        """Take over whose word is taken, which pages may ask, and whether there is anybody to copy for."""
        self.copies = bool(spec.experiments) or spec.record is not None
        self.trust = Trust(spec.trusted_proxies) if spec.trusted_proxies else None
        self.sessions = frozenset(name.encode() for name in spec.session_headers)
        self.cors = Cors(spec.cors) if spec.cors is not None else None
        self.generation += 1

    def pool(self, engine: Engine) -> Pool:
        return self.pools[engine.id]
