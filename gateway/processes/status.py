"""What a worker tells the analysis process once a second, for /readyz and the dashboard."""

import asyncio
import os
from collections.abc import Iterable, MutableMapping
from typing import Any, cast

import msgpack

from gateway.fleets.fleet import Engine
from gateway.fleets.outlier import State
from gateway.service import Service
from routing import credits
from routing.events.decode import TIERS
from routing.shadow import Shadow

_RECONNECT_S = 0.5
_WAITING_BYTES = 1 << 20


def status_frame(service: Service, index: int, at_ns: int) -> bytes:
    """The worker's engines and tallies, packed."""
    counts: dict[str, int] = {"requests": service.tallies.requests, "retried": service.tallies.retried}
    for key, n in service.tallies.all().items():
        if key[0] == "requests":
            counts[key[3]] = counts.get(key[3], 0) + n
    engines = [
        {
            "fleet": fleet.name,
            "id": engine.id,
            "url": engine.name,
            "kind": engine.kind,
            "role": engine.spec.role,
            "up": engine.is_there and engine.heard_ns > 0,  # tried at once, but ready only when it was heard
            "state": engine.standing.state.value,
            "inflight": engine.inflight,
            "models": list(engine.models),
            "error": engine.error,
        }
        for fleet in service.fleets.fleets
        for engine in fleet.engines
    ]
    status: dict[str, Any] = {
        "process": f"worker-{index}",
        "pid": os.getpid(),
        "at_ns": at_ns,
        "listening": not service.draining,
        "draining": service.draining,
        "connections": len(service.connections),
        "engines": engines,
        "counts": counts,
        "paused": [one.name for one in service.lane.experiments if one.paused],
    }
    packed: bytes = msgpack.packb(["status", status])
    return packed


def engine_series(
    engines: Iterable[Engine],
    counts: MutableMapping[tuple[str, ...], int],
    gauges: MutableMapping[tuple[str, ...], float],
) -> None:
    """Add what is thought of each engine to what `WorkerMetrics.flush` takes."""
    for engine in engines:
        standing = engine.standing
        gauges["inflight", engine.name] = engine.inflight
        gauges["engine_up", engine.name] = float(engine.is_there)
        for state in State:
            gauges["engine_state", engine.name, state.value] = float(standing.state is state)
        rates = engine.load.rates
        for tier, (credit, answers) in zip(TIERS[1:], credits.TIERS, strict=True):
            if rates is not None and (getattr(rates, answers) or getattr(rates, credit)):
                gauges["tier_credit", engine.name, tier] = getattr(rates, credit)
                gauges["tier_answers", engine.name, tier] = getattr(rates, answers)
        for reason, n in standing.left_out.items():
            key = ("left_out", engine.name, reason.value)
            counts[key] = counts.get(key, 0) + n


def shadow_series(fleet: str, shadow: Shadow, counts: MutableMapping[tuple[str, ...], int]) -> None:
    """Add what other policies would have done to the counts kept since the start, and begin anew."""
    for policy, score in shadow.taken().items():
        for name, number in (
            ("requests", score.requests),
            ("agreed", score.agreed),
            ("prompt_bytes", score.prompt_bytes),
            ("cached_bytes", score.cached_bytes),
            ("inflight", score.inflight),
            ("weight", 1e3 * score.outcomes_weighed),
            ("weight_squared", 1e3 * score.squared),
            ("first_token_ms", score.first_ms_weighed),
            ("prompt_tokens", score.prompt_tokens_weighed),
            ("cached_tokens", score.cached_tokens_weighed),
        ):
            key = (f"shadow_{name}", fleet, policy)
            counts[key] = counts.get(key, 0) + round(number)
    if shadow.failed:
        counts["shadow_failed", fleet] = counts.get(("shadow_failed", fleet), 0) + shadow.failed
        shadow.failed = 0


class StatusLink(asyncio.Protocol):
    """The socket to the analysis process.  A status that cannot be sent now is not sent at all."""

    def __init__(self, loop: asyncio.AbstractEventLoop, path: str) -> None:
        self._loop = loop
        self._path = path
        self._transport: asyncio.WriteTransport | None = None

    async def keep_connected(self) -> None:
        while True:
            if self._transport is None:
                try:
                    await self._loop.create_unix_connection(lambda: self, self._path)
                except OSError:
                    pass  # the analysis process starts, or starts again; serving goes on without it
            await asyncio.sleep(_RECONNECT_S)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is none by inheritance

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def send(self, frame: bytes) -> None:
        transport = self._transport
        if transport is not None and transport.get_write_buffer_size() < _WAITING_BYTES:
            transport.write(frame)
