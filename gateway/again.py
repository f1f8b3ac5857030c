"""One request that failed before its answer began: is it sent again, to whom, and after what time?

Where nothing fails none of this is called.
"""

from asyncio import TimerHandle
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gateway import question
from gateway.fleets.fleet import Engine
from gateway.retry import BUSY, retry_after_s
from gateway.service import Service
from gateway.turnstile import NO_PROMPT

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


def may_try_another(
    relay: "Relay", service: Service, why: str, at_ns: int, retry_after: bytes = b"", *, full: bool = False
) -> bool:
    """Whether a failed attempt may be followed by another: on an engine not tried yet, as a rule.

    One that is taken to be gone is asked after a failure where no other is left: all that are well were
    tried, or have every place the gateway gives them taken.  Where there is nobody at all, one that said when
    to come back (`retry_after`) may be asked once more then; `full`: it has no room.
    """
    fleet = relay.fleet
    assert fleet is not None
    if not relay.may_begin_again:
        return False
    if relay.again is None:
        relay.again = Again(service)
    without = relay.tried if relay.ticket is None else (*relay.tried, *relay.ticket.full())
    # An engine that said it is busy is better asked again than one that is taken to be gone.
    another = fleet.has_other(without, left_out=why not in BUSY)
    if not relay.again.may(why, at_ns, retry_after, relay.tried[-1:], another=another, full=full):
        return False
    if not another:
        relay.tried = question.barred(relay.ask, fleet) if relay.ask.is_opened else ()
    return True


def try_another(relay: "Relay", reason: str) -> None:
    """Send the request again, at the time that `may_try_another`, asked just before, has set."""
    assert relay.again is not None
    relay.attempt_failed()
    relay.again.go(reason, relay)


def try_same_afresh(relay: "Relay", service: Service, engine: Engine) -> bool:
    """Once: the reused connection died before it said a word, so the request never began there."""
    if not relay.stale_again or relay.is_closed or relay.reply.head_sent or relay.body is None:
        return False
    relay.stale_again = False
    service.tallies.counts[("retries", "idle_race")] += 1
    if relay.legs is None:
        at_s, prompt = relay.received_ns / 1e9, relay.prompt or NO_PROMPT
        relay.send(engine, service.fleets.charge(engine, prompt, at_s), fresh=True)
    else:
        relay.legs.afresh(relay, engine)
    return True


def no_more(relay: "Relay") -> None:
    """What waits to be sent again is not: its client is gone, or the gateway stops."""
    if relay.again is not None:
        relay.again.stop(relay)


def another_is_busy(again: Again | None, engine: int) -> bool:
    """Whether an engine other than this one said that it has no room."""
    return again is not None and again.busy not in ((), (engine,))
