"""How a worker's connections to engines and clients share its descriptors."""

import asyncio
from typing import Any

from gateway.clients.doors import Doors, shares
from gateway.clients.tls import Certificates
from gateway.spec import EngineSpec, LimitsSpec
from wire.origin import Origin
from wire.room import Room
from wire.upstream import Pool


class Pools:
    """Makes the pool of each engine, all of them within one bound on connections."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        certificates: Certificates,
        limits: LimitsSpec,
        descriptors: int,
        log: Any,
    ) -> None:
        self._loop = loop
        self._certificates = certificates
        self._descriptors = descriptors
        self._log = log
        self._room = Room(1)
        self.doors = Doors(1)
        self.limit(limits)

    def limit(self, limits: LimitsSpec) -> None:
        """Use other limits from now on; who is in stays in."""
        clients, engines = shares(self._descriptors, limits.connections)
        if clients < limits.connections and clients != self.doors.most:  # told once, not at each reload
            self._log.warning(
                "fewer clients than limits.connections: raise the limit of open files (ulimit -n)",
                connections=clients,
                wanted=limits.connections,
                descriptors=self._descriptors,
            )
        self.doors.most, self.doors.per_ip = clients, limits.connections_per_ip
        self._room.most = engines

    def of(self, engine: EngineSpec, limits: LimitsSpec) -> Pool:
        """A pool towards this engine."""
        return Pool(
            Origin.parse(engine.url),
            loop=self._loop,
            connect_timeout_s=limits.connect_timeout_s,
            idle_s=limits.engine_idle_s,
            max_connections=limits.engine_connections,
            credentials=self._certificates.towards(engine.url, engine.tls),
            server_name=None if engine.tls is None else engine.tls.server_name,
            head_limit_bytes=limits.head_bytes,
            resolve_s=limits.resolve_s,
            room=self._room,
        )

    def secure(self, pool: Pool, engine: EngineSpec) -> None:
        """Connect by what the engine's spec says now; connections that are open stay."""
        name = None if engine.tls is None else engine.tls.server_name
        pool.secure(self._certificates.towards(engine.url, engine.tls), name)
