"""How does a worker stop?  Not ready at once, then deaf to new connections, then done: visibly, if cut."""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic_ns

from gateway.clients.entrance import Closes
from gateway.service import Service
from wire.exchange import Ending

_LOOK_S = 0.05
_FLUSH_S = 1.0


async def drain(service: Service, servers: Sequence[Closes], report: Callable[[], None]) -> None:
    """End a worker's service in order.

    1. Not ready: the probes say so, and every answer closes its connection.  For `limits.drain_delay_s` new
       connections are still taken, for a balancer goes on sending until it has heard.
    2. No new connections; idle ones close; what runs has `limits.drain_s` to end.
    3. What runs still is ended so that its client sees it: an error event in a stream of events, else no last
       chunk, too few bytes, or a reset.
    """
    limits = service.limits
    service.draining = True
    report()
    await asyncio.sleep(limits.drain_delay_s)
    for server in servers:
        server.close()
    await _emptied(service, limits.drain_s)
    for relay in list(service.waiting):
        relay.stop()
    if service.admission is not None:
        service.admission.stop()
    for attempt in list(service.active):
        attempt.exchange.cancel(Ending.SHUTDOWN)
    await _emptied(service, _FLUSH_S if service.connections else 0.0)
    for connection in list(service.connections):
        connection.cut(reset=True)  # it has not sent its request, or does not read its answer


async def _emptied(service: Service, within_s: float) -> None:
    """Wait until no connection is left, closing those on which nothing runs, `within_s` seconds at most."""
    deadline_ns = monotonic_ns() + int(within_s * 1e9)
    while service.connections and monotonic_ns() < deadline_ns:
        for connection in [one for one in service.connections if one.is_idle]:
            connection.retire()
        await asyncio.sleep(_LOOK_S)
