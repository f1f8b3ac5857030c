"""Time limits, looked after once a second for all requests together: no timer per read."""

import select
from collections.abc import Iterator
from typing import Final

from gateway.attempt import Attempt
from gateway.clients.server import Connection
from gateway.service import Service
from wire.exchange import Ending

# Linux tells of a peer's end while bytes before it are unread; elsewhere only of a reset.
_LEFT = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
# So many are looked at without a break: thousands at once would be a pause of milliseconds for all streams.
_AT_ONCE: Final = 200
_DONE: Final = object()


def sweep(service: Service, now_ns: int) -> None:
    """End what has been silent for too long, on either side; the loop gets its turns while there are many.

    An engine has `first_token_timeout_s` until its first token and `idle_timeout_s` between reads after it
    (comments count as life there, and not before).  A client that reads nothing for `idle_timeout_s` is given
    up.  There is no limit on a request's whole time.  One that fails to be ended keeps no other from it.
    """
    _go_on(service, _swept(service, now_ns))


def _go_on(service: Service, steps: Iterator[None]) -> None:
    if next(steps, _DONE) is not _DONE:
        service.loop.call_soon(_go_on, service, steps)


def _swept(service: Service, now_ns: int) -> Iterator[None]:
    limits = service.limits
    first_ns = int(limits.first_token_timeout_s * 1e9)
    idle_ns = int(limits.idle_timeout_s * 1e9)

    def is_overdue(attempt: Attempt) -> bool:
        if attempt.paused_ns:
            return now_ns - attempt.paused_ns > idle_ns
        if attempt.awaits_token:
            return now_ns - attempt.chosen_ns > first_ns
        return now_ns - attempt.last_ns > idle_ns

    overdue: list[Attempt] = []
    for at, attempt in enumerate(list(service.active), 1):
        if not at % _AT_ONCE:
            yield
        if is_overdue(attempt):
            overdue.append(attempt)
        elif not attempt.awaits_token:
            attempt.engine.life_ns = max(attempt.engine.life_ns, attempt.last_ns)
    # Only now: whether an engine that gave no token is to blame depends on whether others of its answers run.
    for at, attempt in enumerate(overdue, 1):
        if not at % _AT_ONCE:
            yield
        if attempt in service.active and is_overdue(attempt):  # still: others ran meanwhile
            try:
                if attempt.paused_ns:
                    attempt.stalled()
                else:
                    attempt.exchange.cancel(Ending.TIMEOUT)
            except Exception as error:
                service.failed("sweep", error)
    yield from _sweep_clients(service, now_ns)
    for pool in list(service.pools.values()):
        try:
            pool.sweep(now_ns)
        except Exception as error:
            service.failed("sweep", error)


def _sweep_clients(service: Service, now_ns: int) -> Iterator[None]:
    """End what clients do not go on with.

    A head must be whole `head_timeout_s` after its first byte, however it dribbles in; a body must bring
    `body_bytes_per_s` over each `body_timeout_s` in which the gateway reads it; a connection on which
    nothing is asked is closed after `keep_alive_s`.
    """
    limits = service.limits
    uploads, service.uploads = service.uploads, {}
    held_bytes = 0
    for at, connection in enumerate(list(service.connections), 1):
        if not at % _AT_ONCE:
            yield
        if connection not in service.connections:
            continue
        try:
            held_bytes += _look_at(connection, service, uploads.get(connection), now_ns)
        except Exception as error:
            service.failed("sweep", error)
    if held_bytes > limits.uploads_bytes:
        _make_room(service, held_bytes - limits.uploads_bytes)


def _look_at(connection: Connection, service: Service, since: tuple[int, int] | None, now_ns: int) -> int:
    """End it if it is overdue; how many bytes of an unfinished body it holds."""
    limits = service.limits
    if connection.is_paused:
        if _has_left(connection):
            connection.cut(reset=True)
    elif connection.awaits_answer:
        pass
    elif connection.is_unread:
        if _is_too_slow(service, connection, since, now_ns):
            connection.overdue("body_timeout", 408, "the request's body came too slowly")
        return connection.upload[1]
    elif connection.is_halfway:
        if now_ns - connection.last_ns > int(limits.head_timeout_s * 1e9):
            connection.overdue("head_timeout", 408, "the request's head did not come whole in time")
    elif now_ns - connection.last_ns > int(limits.keep_alive_s * 1e9):
        connection.retire()
    return 0


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
