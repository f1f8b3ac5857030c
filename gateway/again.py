"""One request that failed before its answer began: is it sent again, and after what time?"""

from asyncio import TimerHandle
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gateway.retry import retry_after_s
from gateway.service import Service

if TYPE_CHECKING:
    from gateway.relay import Relay


class Again:
    """The retries of one request; made when its first attempt fails.

    The relay is an argument: who kept it would keep it until the next collection, for it keeps this.
    """

    __slots__ = ("_delay_s", "_service", "_timer", "busy", "made")

    def __init__(self, service: Service) -> None:
        self._service = service
        self._delay_s = 0.0
        self._timer: TimerHandle | None = None
        self.busy: tuple[int, ...] = ()  # the engine that said last that it has no room
        self.made = 0

    def may(
        self,
        why: str,
        at_ns: int,
        retry_after: bytes,
        engine: tuple[int, ...],
        *,
        another: bool,
        full: bool = False,
    ) -> bool:
        """Whether to send it again after an attempt that failed at `at_ns`; see `gateway.retry`.

        `engine` is the one whose attempt failed, `retry_after` its field, if any; `full`: it said that it has
        no room.  The time to wait is drawn here, for `go`.
        """
        service = self._service
        if full:
            self.busy = engine
        if self.made >= service.limits.retries:
            return False
        delay_s = service.retries.next_delay_s(
            why,
            self.made,
            another=another,
            rules=service.limits,
            counted=service.tallies,
            now_s=at_ns / 1e9,
            retry_after_s=retry_after_s(retry_after, datetime.now(UTC)) if retry_after else None,
        )
        if delay_s is None:
            return False
        self._delay_s = delay_s
        return True

    def go(self, reason: str, relay: "Relay") -> None:
        """Send it in its time, which `may` has drawn just before."""
        service = self._service
        self.made += 1
        service.tallies.retried += 1
        service.tallies.counts[("retries", reason)] += 1
        if not self._delay_s:
            relay.dispatch()
            return
        service.waiting.add(relay)
        self._timer = service.loop.call_later(self._delay_s, self._due, relay)

    def stop(self, relay: "Relay") -> None:
        """It is not sent again: its client is gone, or the gateway stops."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            self._service.waiting.discard(relay)

    def _due(self, relay: "Relay") -> None:
        self._timer = None
        self._service.waiting.discard(relay)
        relay.dispatch()


def another_is_busy(again: Again | None, engine: int) -> bool:
    """Whether an engine other than this one said that it has no room."""
    return again is not None and again.busy not in ((), (engine,))
