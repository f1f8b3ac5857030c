"""Time limits, looked after once a second for all requests together: no timer per read."""

import select
from collections.abc import Iterator
from typing import Final

from gateway.server import Connection
from gateway.service import Service
from wire.upstream import Ending

# Linux tells of a peer's end while bytes before it are unread; elsewhere only of a reset.
_LEFT = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
# So many are looked at without a break: thousands at once would be a pause of milliseconds for all streams.
_AT_ONCE: Final = 200
_DONE: Final = object()


def sweep(service: Service, now_ns: int) -> None:
    """End what has been silent for too long, on either side; the loop gets its turns while there are many.

    An engine has `first_token_timeout_s` until its first token and `idle_timeout_s` between reads after it
    (comments count as life there, and not before).  A client that reads nothing for `idle_timeout_s` is given
    up.  There is no limit on a request's whole time.
    """
    _go_on(service, _swept(service, now_ns))


def _go_on(service: Service, steps: Iterator[None]) -> None:
    if next(steps, _DONE) is not _DONE:
        service.loop.call_soon(_go_on, service, steps)


def _swept(service: Service, now_ns: int) -> Iterator[None]:
    limits = service.limits
    first_ns = int(limits.first_token_timeout_s * 1e9)
    idle_ns = int(limits.idle_timeout_s * 1e9)
    for at, attempt in enumerate(list(service.active), 1):
        if not at % _AT_ONCE:
            yield
        if attempt not in service.active:
            continue  # it ended while others ran
        if attempt.paused_ns:
            if now_ns - attempt.paused_ns > idle_ns:
                attempt.stalled()
        elif attempt.awaits_token:
            if now_ns - attempt.chosen_ns > first_ns:
                attempt.exchange.cancel(Ending.TIMEOUT)
        elif now_ns - attempt.last_ns > idle_ns:
            attempt.exchange.cancel(Ending.TIMEOUT)
    yield from _sweep_clients(service, now_ns)
    for pool in service.pools.values():
        pool.sweep(now_ns)


def _sweep_clients(service: Service, now_ns: int) -> Iterator[None]:
    """End what clients do not go on with.

    A head must be whole `head_timeout_s` after its first byte, however it dribbles in; a body must bring
    `body_bytes_per_s` over each `body_timeout_s` in which the gateway reads it; a connection on which
    nothing is asked is closed after `keep_alive_s`.
    """
    limits = service.limits
    head_ns = int(limits.head_timeout_s * 1e9)
    keep_alive_ns = int(limits.keep_alive_s * 1e9)
    uploads, service.uploads = service.uploads, {}
    held_bytes = 0
    for at, connection in enumerate(list(service.connections), 1):
        if not at % _AT_ONCE:
            yield
        if connection not in service.connections:
            continue
        if connection.is_paused:
            if _has_left(connection):
                connection.cut(reset=True)
        elif connection.awaits_answer:
            pass
        elif connection.is_unread:
            if _is_too_slow(service, connection, uploads.get(connection), now_ns):
                connection.overdue("body_timeout", 408, "the request's body came too slowly")
            held_bytes += connection.upload[1]
        elif connection.is_halfway:
            if now_ns - connection.last_ns > head_ns:
                connection.overdue("head_timeout", 408, "the request's head did not come whole in time")
        elif now_ns - connection.last_ns > keep_alive_ns:
            connection.retire()
    if held_bytes > limits.uploads_bytes:
        _make_room(service, held_bytes - limits.uploads_bytes)


def _is_too_slow(
    service: Service, connection: Connection, since: tuple[int, int] | None, now_ns: int
) -> bool:
    limits = service.limits
    came = connection.upload[0]
    if since is None or came < since[1]:  # the next request's body, on the same connection
        since = (now_ns, came)
    elif now_ns - since[0] >= int(limits.body_timeout_s * 1e9):
        if came - since[1] < limits.body_bytes_per_s * (now_ns - since[0]) / 1e9 or came == since[1]:
            return True
        since = (now_ns, came)
    service.uploads[connection] = since
    return False


def _make_room(service: Service, surplus_bytes: int) -> None:
    """Too much of unfinished bodies is held: the largest go."""
    for connection in sorted(service.uploads, key=lambda one: one.upload[1], reverse=True):
        if surplus_bytes <= 0:
            return
        surplus_bytes -= connection.upload[1]
        connection.overdue("uploads", 503, "the gateway is receiving as much as it can hold")


def _has_left(connection: Connection) -> bool:
    """Whether a client that is not read from has ended its side."""
    descriptor = connection.descriptor
    if descriptor < 0:
        return False
    poll = select.poll()
    poll.register(descriptor, _LEFT)
    return any(events & _LEFT for _, events in poll.poll(0))
