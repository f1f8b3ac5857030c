"""Time limits, looked after once a second for all requests together: no timer per read."""

from gateway.service import Service
from wire.upstream import Ending

_KEEP_ALIVE_NS = 75_000_000_000


def sweep(service: Service, now_ns: int) -> None:
    """End what has been silent for too long, on either side.

    An engine has `first_token_timeout_s` until its first token and `idle_timeout_s` between reads after it
    (comments count as life there, and not before).  A client that reads nothing for `idle_timeout_s` is given
    up, and so is a connection on which nothing is asked.  There is no limit on a request's whole time.
    """
    limits = service.limits
    first_ns = int(limits.first_token_timeout_s * 1e9)
    idle_ns = int(limits.idle_timeout_s * 1e9)
    for attempt in list(service.active):
        if attempt.paused_ns:
            if now_ns - attempt.paused_ns > idle_ns:
                attempt.stalled()
        elif attempt.awaits_token:
            if now_ns - attempt.sent_ns > first_ns:
                attempt.exchange.cancel(Ending.TIMEOUT)
        elif now_ns - attempt.last_ns > idle_ns:
            attempt.exchange.cancel(Ending.TIMEOUT)
    for connection in list(service.connections):
        if now_ns - connection.last_ns > _KEEP_ALIVE_NS and not connection.awaits_answer:
            connection.retire()
    for pool in service.pools.values():
        pool.sweep(now_ns)
