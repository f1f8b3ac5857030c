"""One engine's side of a request: the load charged, the answer coming in, the one place where it all ends.

Until the first whole event it is open whether this engine answers at all: its head and those few bytes are
held back (at most `hold_head_ms`), so that a refusal, also one inside a 200, may be tried on another engine.
"""

from typing import TYPE_CHECKING, Final

from gateway import again
from gateway.copied import Copy
from gateway.ends import Ends
from gateway.first_event import FirstEvent
from gateway.fleets.fleet import Engine
from gateway.outcome import FIRST_TOKEN, Outcome, outcome
from gateway.service import Service
from gateway.tail import Tail
from gateway.usage import Usage, usage
from routing.types import Choice
from wire.clock import monotonic_ns
from wire.exchange import Ending, Exchange
from wire.response import ResponseHead

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from gateway.relay import Relay
    from routing.shadow import Shadow

_RETRIED_STATUS: Final = frozenset({429, 502, 503})
# By these an engine, or what stands before it, says that it did not take a request: any may be sent again.
# After all else only one that leaves nothing behind.
_NOT_TAKEN_STATUS: Final = frozenset({429, 503})
_NOT_SENT: Final = frozenset({Ending.REFUSED, Ending.FULL})
_ENGINES_FAULT: Final = frozenset({500, 502, 503, 504})
# What tells of a token is never longer, up to the token's first character.
_TOKEN_BYTES: Final = 64
_BEGUN_BYTES: Final = 2 << 10


class Attempt:
    """The answer of one engine coming in.  However it ends, `ended` closes its books."""

    __slots__ = (
        "_begun",
        "_ends",
        "_first",
        "_head",
        "_is_events",
        "_pending_bytes",
        "_relay",
        "_service",
        "_start",
        "_tail",
        "_timer",
        "body_bytes",
        "choice",
        "chosen_ns",
        "engine",
        "exchange",
        "head_ns",
        "last_ns",
        "paused_ns",
        "replaced",
        "token_ns",
        "usage",
    )

    exchange: Exchange

    def __init__(self, relay: "Relay", service: Service, engine: Engine, choice: Choice) -> None:
        self._relay = relay
        self._service = service
        self.engine = engine
        self.choice = choice
        self._pending_bytes = choice.uncached_bytes
        self._head: ResponseHead | None = None
        self._is_events = False
        self._first: FirstEvent | None = None
        self._start = b""  # the last bytes of an event stream before its first token
        self._tail: Tail | None = None  # of an event stream
        self._ends: Ends | None = None  # of a document
        self._begun = b""  # an event stream's first event, where it may tell of the prompt
        self._timer: TimerHandle | None = None
        self.chosen_ns = self.last_ns = monotonic_ns()
        self.head_ns: int | None = None
        self.token_ns = 0
        self.paused_ns = 0
        self.body_bytes = 0
        self.usage: Usage | None = None  # what the engine told, known from the ending on
        self.replaced = ""  # why another attempt follows this one

    @property
    def status(self) -> int:
        """What the engine answered, 0 as long as it has not."""
        return self._head.status if self._head is not None else 0

    @property
    def sent_ns(self) -> int:
        """When the request was handed to the engine's connection; until then, when the engine was chosen."""
        return self.exchange.written_ns or self.chosen_ns

    @property
    def awaits_token(self) -> bool:
        return self.token_ns == 0

    def pause(self) -> None:
        self.paused_ns = monotonic_ns()
        self.exchange.pause_reading()

    def resume(self) -> None:
        self.paused_ns = 0
        self.last_ns = monotonic_ns()
        self.exchange.resume_reading()

    def stalled(self) -> None:
        """The client has not read for too long."""
        self._relay.reader_stalled()

    def head_came(self, response: ResponseHead, at_ns: int, *, more: bool) -> None:
        self.engine.answered(at_ns)
        self.last_ns = at_ns
        self.head_ns = at_ns
        self._head = response
        relay = self._relay
        status = response.status
        if status >= 400 and self._is_given_up(response, at_ns):
            return
        self._is_events = response.is_events
        if relay.reply.head_sent and not (self._is_events and status == 200):
            self.exchange.cancel(Ending.MALFORMED)  # the client has the head of an event stream already
            return
        if self._is_events:
            self._tail = Tail()
        elif status == 200:
            self._ends = Ends()
        if relay.observed is not None and response.field(b"content-encoding"):
            relay.observed.overflowed = True  # compressed for the client: not to be read beside the arms'
        if self._is_events and not relay.began and status == 200:
            self._first = FirstEvent()
            if not relay.reply.head_sent:
                delay_s = self._service.limits.hold_head_ms / 1e3
                self._timer = self._service.loop.call_later(delay_s, self._held_long_enough)
        else:
            relay.began = True
            relay.reply.send_head(response, more=more)

    def _is_given_up(self, response: ResponseHead, at_ns: int) -> bool:
        """Whether another engine is to be asked, for what this one says instead of an answer."""
        relay, status = self._relay, response.status
        if status in _ENGINES_FAULT:
            self.engine.erred(f"it answered {status}", at_ns)
        if status in _RETRIED_STATUS and (relay.ask.is_stateless or status in _NOT_TAKEN_STATUS):
            why = "status_429" if status == 429 else "status_5xx"
            after = response.field(b"retry-after")
            if again.may_try_another(relay, self._service, why, at_ns, after, full=status == 429):
                self._give_way(why)
                return True
        return False

    def _held_long_enough(self) -> None:
        self._timer = None
        if self._head is not None:
            self._relay.reply.send_head(self._head, more=False)

    def body_came(self, body: bytes, at_ns: int, framed: bytes | None) -> None:
        self.last_ns = at_ns
        self.body_bytes += len(body)
        relay = self._relay
        if relay.observed is not None:
            self._service.lane.read(relay.observed, at_ns, body)
        if self.token_ns == 0 and (not self._is_events or self._holds_token(body)):
            self._token_came(at_ns)
        if self._tail is not None:
            self._tail.add(body)
            if self._first is not None:
                self._watch(body)
                return
        elif self._ends is not None:
            self._ends.add(body)
        relay.reply.send_body(body, framed)

    def _watch(self, body: bytes) -> None:
        """Hold what comes until it is known to be an answer and not a refusal inside a 200."""
        assert self._first is not None and self._head is not None
        relay = self._relay
        seen = self._first.feed(body)
        if seen.began:
            self._first = None
            if seen.error_code in _ENGINES_FAULT:
                self.engine.erred(f"its answer began with the error {seen.error_code}", self.last_ns)
            if (
                seen.error_code in _RETRIED_STATUS
                and relay.ask.is_stateless
                and again.may_try_another(
                    relay, self._service, "error_event", self.last_ns, full=seen.error_code == 429
                )
            ):
                self._give_way("error_event")
                return
            relay.began = True
            if b'"message_start"' in seen.passed:
                self._begun = seen.passed[:_BEGUN_BYTES]
        if seen.passed:
            self._stop_timer()
            relay.reply.send_head(self._head, more=True)
            relay.reply.send_body(seen.passed)

    def _give_way(self, reason: str) -> None:
        """Leave this engine's answer unread and let another engine try."""
        self._stop_timer()
        self.replaced = reason
        self.exchange.cancel()

    def _holds_token(self, body: bytes) -> bool:
        """Whether a token is said by the end of this piece, which may have cut it in two."""
        start = self._start + body
        self._start = start[-_TOKEN_BYTES:]
        return FIRST_TOKEN.search(start) is not None

    def _token_came(self, at_ns: int) -> None:
        self.token_ns = at_ns
        if self.status < 400:  # an error's body is no token
            self.engine.token_ns = at_ns
        self._service.fleets.prefilled(self.engine, self._pending_bytes)
        self._pending_bytes = 0
        relay = self._relay
        if relay.prompt is not None and relay.fleet is not None and self.status < 400:
            relay.fleet.router.answered(self.engine.id, relay.prompt)

    def _tell(self, shadow: "Shadow") -> None:
        """What became of a request about which other policies were asked."""
        told = self.usage
        shadow.came(
            self.choice,
            (self.token_ns - self.sent_ns) / 1e9,
            None if told is None else told.prompt_tokens,
            None if told is None else told.cached_tokens,
        )

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _let_go(self) -> None:
        """The one place where its load is released."""
        self._stop_timer()
        self._service.active.discard(self)
        answered = self.token_ns > 0 and self.status < 400
        self._service.fleets.released(self.engine, self._relay.prompt, self._pending_bytes, answered=answered)

    def ended(self, ending: Ending, at_ns: int) -> None:
        """The one place where an attempt's ending is counted, and what follows is decided."""
        service, relay, engine = self._service, self._relay, self.engine
        self._let_go()
        if engine.fleet is not None:
            engine.fleet.busy_ns += at_ns - self.sent_ns
        if self.replaced:
            again.try_another(relay, self.replaced)
            return
        if ending not in (Ending.COMPLETE, Ending.CANCELLED, Ending.SHUTDOWN):
            if ending is not Ending.FULL:  # that is this side's: the engine was not even asked
                service.tallies.counts[("upstream_errors", engine.name, ending.value)] += 1
            if ending is Ending.REFUSED:
                engine.failed("no connection")
            elif ending is Ending.TIMEOUT and not self.token_ns:
                engine.timed_out(self.sent_ns, at_ns)
            if not (relay.ask.is_stateless or ending in _NOT_SENT):
                pass  # it may have left something behind: the client is told, and decides
            elif not self.exchange.heard:
                if again.may_try_another(relay, service, ending.value, at_ns):
                    again.try_another(relay, ending.value)
                    return
                if (
                    ending is Ending.CUT
                    and self.exchange.reused
                    and again.try_same_afresh(relay, service, engine)
                ):
                    return
            elif not relay.began and again.may_try_another(relay, service, "before_first_token", at_ns):
                again.try_another(relay, "before_first_token")
                return
        status = self._head.status if self._head is not None else 0
        what = outcome(ending, status, self._tail)
        if status == 200:
            self._count_tokens()
        self._close_books(ending, at_ns, what)
        if ending is Ending.COMPLETE:
            if self._first is not None and self._head is not None:
                relay.reply.send_head(self._head, more=True)
                if self._first.held:
                    relay.reply.send_body(self._first.held)
            relay.finished(self, what, at_ns)
        else:
            relay.failed(self, ending, what, at_ns)
        if relay.observed is not None:
            self._hand_over(relay.observed, ending, at_ns)

    def _hand_over(self, copy: Copy, ending: Ending, at_ns: int) -> None:
        """Give what production answered to be shown beside the arms' answers: the client has it by now."""
        response = self._head
        copy.sent_ns = self.sent_ns
        content_type = response.field(b"content-type") if response is not None else b""
        self._service.lane.served(
            copy,
            response.status if response is not None else 0,
            content_type.decode("latin-1"),
            self.head_ns,
            at_ns,
            ending,
        )

    def _count_tokens(self) -> None:
        """The one place where an answer's own words about its tokens are read."""
        if self._tail is not None:
            told = usage((self._tail.last,), True, self._begun)
        elif self._ends is not None:
            told = usage((self._ends.last,), False, self._ends.first)
        else:
            return
        fleet = self._relay.fleet
        if told is not None and fleet is not None:
            self.usage = told
            fleet.answered(self._service.tallies).told(told)
            if told.completion_tokens and self._relay.prompt is not None:
                self.engine.said(self._relay.prompt, told.completion_tokens)
            if fleet.lessons is not None:
                fleet.lessons.answered(self._relay.prompt, self.engine.id, told)

    def _close_books(self, ending: Ending, at_ns: int, what: Outcome) -> None:
        relay = self._relay
        assert relay.fleet is not None
        seconds = relay.fleet.seconds
        if self.token_ns:
            ttft_s = (self.token_ns - relay.received_ns) / 1e9
            seconds.ttft.add(ttft_s)
            if relay.fleet.ttfts_s is not None:
                relay.fleet.ttfts_s.append(ttft_s)
        if what is Outcome.COMPLETE and self._is_events and self.token_ns and self.status == 200:
            if self.choice.agreeing and relay.fleet.shadow is not None:
                self._tell(relay.fleet.shadow)
            self.engine.streamed(self.choice, self.sent_ns, self.token_ns, self.last_ns, self.usage)
        seconds.overhead.add((self.chosen_ns - relay.received_ns - self._awaited_ns()) / 1e9)
        if what is Outcome.COMPLETE:
            seconds.e2e.add((at_ns - relay.received_ns) / 1e9)

    def _awaited_ns(self) -> int:
        """How long the request waited for others before this engine was chosen."""
        ticket = self._relay.ticket
        return 0 if ticket is None else ticket.waited_ns
