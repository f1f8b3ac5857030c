"""Which kept connection may carry another request: not too old, and not ended meanwhile."""

import re
import select
from collections import deque
from typing import Any, Final, Generic, Protocol, TypeVar

# A connection idle for less is taken unasked: in a busy pool the question would cost more than the rare loss,
# which ends in a repeat anyway.  One idle for longer belongs to a pool that has the time.
_LOOKED_AFTER_NS: Final = 10_000_000
_LONGEST_S: Final = 60.0
_TIMEOUT: Final = re.compile(rb"(?i)(?:^|[\s,;])timeout\s*=\s*\"?(\d{1,6})")


class Keepable(Protocol):
    """A connection between two exchanges."""

    idle_since_ns: int
    lost: bool
    transport: Any

    def drop(self) -> None: ...


C = TypeVar("C", bound=Keepable)


class Idle(Generic[C]):
    """Idle connections to one engine; the one used last is used next, so that surplus ones grow old.

    They are retired before the engine's own limit, because a request sent into a closing connection is
    lost: after `idle_s`, or what the engine promises (see `learn`).

    Those that the engine ended meanwhile stay here, marked by themselves, until they are passed: looking for
    one among all the others would cost too much where all end at once.
    """

    __slots__ = ("_is_promised", "_kept", "_limit_ns", "_poll")

    def __init__(self, idle_s: float) -> None:
        self._limit_ns = int(idle_s * 1e9)
        self._is_promised = False
        self._kept: deque[C] = deque()
        self._poll = select.poll()

    def __len__(self) -> int:
        """How many could be used; counted when asked."""
        return sum(not connection.lost for connection in self._kept)

    def limit(self, idle_s: float) -> None:
        """Retire them after this from now on, unless the engine promised another time."""
        if not self._is_promised:
            self._limit_ns = int(idle_s * 1e9)

    def learn(self, keep_alive: bytes) -> None:
        """Take the limit from an answer's `Keep-Alive` field, where it tells one."""
        promised_s = promised_idle_s(keep_alive)
        if promised_s is not None:
            self._is_promised = True
            self._limit_ns = int(promised_s * 1e9)

    def keep(self, connection: C, at_ns: int) -> None:
        connection.idle_since_ns = at_ns
        self._kept.append(connection)

    def take(self, now_ns: int) -> C | None:
        """A connection to use now; those found unusable are dropped."""
        kept = self._kept
        while kept:
            connection = kept.pop()
            idle_ns = now_ns - connection.idle_since_ns
            if (
                not connection.lost
                and idle_ns <= self._limit_ns
                and (idle_ns < _LOOKED_AFTER_NS or self._is_quiet(connection))
            ):
                return connection
            connection.drop()
        return None

    def retire(self, now_ns: int) -> None:
        """Drop those past their time."""
        kept = self._kept
        while kept and (kept[0].lost or now_ns - kept[0].idle_since_ns > self._limit_ns):
            kept.popleft().drop()

    def oldest(self) -> C | None:
        """The one idle longest, no longer kept here."""
        kept = self._kept
        while kept:
            connection = kept.popleft()
            if not connection.lost:
                return connection
        return None

    def _is_quiet(self, connection: C) -> bool:
        """Ask the kernel whether anything came: an end that the loop has not told of yet, or words unasked.

        0.5 us; a peeking read that finds nothing takes 1.5.
        """
        descriptor: int = connection.transport.get_extra_info("socket").fileno()
        if descriptor < 0:
            return False
        self._poll.register(descriptor, select.POLLIN)
        heard = self._poll.poll(0)
        self._poll.unregister(descriptor)
        return not heard


def promised_idle_s(keep_alive: bytes) -> float | None:
    """How long a connection may lie idle by the `Keep-Alive` field of an answer, with time to spare.

    A second less than promised, or a fifth where that is less; at most a minute; None where it says nothing.
    """
    found = _TIMEOUT.search(keep_alive)
    if found is None:
        return None
    promised_s = float(found[1])
    return min(_LONGEST_S, max(promised_s - 1.0, promised_s * 0.8))
