"""May a request that failed be sent again, and after how long?

Two bounds.  For all requests together a budget: retries may be a share of the traffic of the last seconds,
and a few a second besides, so that little traffic can be retried too, and an outage does not double its own
load.  For one request a backoff.  Where nobody was there, another engine is asked at once.  Where an engine
was busy the wait is drawn (full jitter) and grows with each attempt, so that those it refused together do not
come back together.

Whether the request may be sent again at all (nothing of an answer given, its body still here) is not decided
here, nor how often.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import exp
from typing import Final, Protocol

# Traffic counts for this long, fading: e.g. a tenth of the requests of 10 s ago is remembered after 23 s.
_HORIZON_S: Final = 10.0
_FIRST_S: Final = 0.05  # a busy engine's first backoff is up to this, each further one up to twice as much
_UNREACHED_FIRST_S: Final = 0.01
_MOST_S: Final = 2.0

# Why an attempt came to nothing, as the relay counts it: those of an engine that was there and had no room.
BUSY: Final = frozenset({"status_429", "status_5xx", "error_event"})


class Rules(Protocol):
    """The limits that matter here; `gateway.spec.LimitsSpec` has them."""

    @property
    def retry_share(self) -> float: ...

    @property
    def retry_per_s(self) -> float: ...

    @property
    def retry_wait_s(self) -> float: ...


class Counted(Protocol):
    """What the worker has counted since its start; `gateway.service.Tallies` has it."""

    @property
    def requests(self) -> int: ...

    @property
    def retried(self) -> int: ...


class Retries:
    """One worker's budget of retries, and the time before each.

    Requests and retries are counted by whoever makes them; looking at the counts costs nothing per request.
    """

    __slots__ = ("_at_s", "_left", "_requests", "_retried", "_rng", "refused")

    def __init__(self, rng: Callable[[], float], now_s: float) -> None:
        self._rng = rng
        self._left: float | None = None  # retries that may be made now
        self._at_s = now_s
        self._requests = 0
        self._retried = 0
        self.refused = 0  # retries that the budget did not allow, since the start

    def next_delay_s(
        self,
        why: str,
        made: int,
        *,
        another: bool,
        rules: Rules,
        counted: Counted,
        now_s: float,
        retry_after_s: float | None = None,
    ) -> float | None:
        """Seconds to wait before the next attempt; None: there is to be none.

        `why` the attempt failed: one of `BUSY`, anything else means that nobody was there.  `made`: retries
        of this request before.  `another`: there is an engine that was not tried.  Where there is none, an
        engine that named a time is asked again after it, if that is at most `retry_wait_s`.
        """
        busy = why in BUSY
        if another:
            delay_s = 0.0
            if busy or made:
                first_s = _FIRST_S if busy else _UNREACHED_FIRST_S
                delay_s = self._rng() * min(_MOST_S, first_s * 2.0 ** min(made, 16))
        elif busy and retry_after_s is not None and retry_after_s <= rules.retry_wait_s:
            delay_s = retry_after_s + self._rng() * max(_FIRST_S, 0.1 * retry_after_s)
        else:
            return None
        if not self.has_room(rules, counted, now_s):
            self.refused += 1
            return None
        return delay_s

    def has_room(self, rules: Rules, counted: Counted, now_s: float) -> bool:
        """Whether one more retry is within the budget."""
        passed_s = max(0.0, now_s - self._at_s)
        if self._left is None:
            self._left = rules.retry_per_s  # as after a second of quiet
        fading = exp(-passed_s / _HORIZON_S)
        # What came evenly since the last look has faded too, its beginning most.
        counts_s = _HORIZON_S * (1.0 - fading)
        share = counts_s / passed_s if passed_s else 1.0
        left = self._left * fading + rules.retry_per_s * counts_s
        left += rules.retry_share * (counted.requests - self._requests) * share
        left -= counted.retried - self._retried
        self._left, self._at_s = left, now_s
        self._requests, self._retried = counted.requests, counted.retried
        return left >= 1.0


def retry_after_s(value: bytes, now: datetime) -> float | None:
    """A Retry-After field, in seconds from `now` (aware); None when it cannot be understood."""
    text = value.strip()
    if text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text.decode("ascii"))
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())
