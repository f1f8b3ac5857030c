"""The client's side of one request: from its head to the last byte of its answer.

No method waits.  `Relay` is the client's side: what was asked, what was already sent back.  An `Attempt`
is one engine's side.  A failed attempt may be followed by another on another engine until the first event
has been passed on, and never after.
"""

from datetime import UTC, datetime
from time import monotonic_ns
from typing import TYPE_CHECKING

from gateway import access_line, decode_body, outgoing, question
from gateway.ask import Ask
from gateway.attempt import Attempt
from gateway.decode_body import Decoded
from gateway.fleet import Engine, Fleet
from gateway.lane_link import Copy
from gateway.outcome import Outcome
from gateway.question import Refused
from gateway.reply import Reply
from gateway.retry import retry_after_s
from gateway.service import Service
from routing.types import Choice, Prompt
from wire.upstream import Ending

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from gateway.server import Connection

_FAILED_STATUS = {Ending.TIMEOUT: 504, Ending.SHUTDOWN: 503, Ending.FULL: 503}


class Relay:
    """The client's side of one request."""

    __slots__ = (
        "_attempt",
        "_body_bytes",
        "_choice_made",
        "_client",
        "_delay_s",
        "_is_sent",
        "_packed",
        "_pieces",
        "_retry_timer",
        "_service",
        "_stale_again",
        "_tried",
        "ask",
        "began",
        "body",
        "body_ns",
        "copy",
        "fleet",
        "head",
        "id",
        "is_closed",
        "prompt",
        "received_ns",
        "reply",
        "retries",
        "status",
    )

    def __init__(
        self,
        service: Service,
        client: "Connection",
        ask: Ask,
        received_ns: int,
        id: bytes,
    ) -> None:
        self._service = service
        self._client = client
        self.ask = ask
        self.head = ask.head
        self.received_ns = received_ns
        self.id = id
        self.body: bytes | None = None  # whole, once it is
        self.prompt: Prompt | None = None
        self.fleet: Fleet | None = None
        self.copy: Copy | None = None
        self.reply = Reply(client, ask, id)
        self.began = False  # something of an answer itself, not only comments, was given to the client
        self.is_closed = False
        self.retries = 0  # made so far
        self.status = 0  # what the gateway itself told the client in place of an engine's answer
        self.body_ns = 0  # when the request was whole
        self._attempt: Attempt | None = None
        # What came of the body: all of it until it is read, or the start of one that goes by unread until an
        # engine's connection takes it.
        self._pieces: list[bytes] = []
        self._body_bytes = 0
        self._is_sent = False  # part of a body that goes by is with an engine: no other can have it
        self._delay_s = 0.0  # before the next attempt
        self._retry_timer: TimerHandle | None = None
        self._tried: tuple[int, ...] = ()
        self._stale_again = True
        self._choice_made = False
        self._packed: Decoded | None = None  # what a compressed body is, as far as it is read

    @property
    def upload(self) -> tuple[int, int]:
        """How many bytes of the body came, and how many of them wait here for the rest."""
        return self._body_bytes, self._body_bytes if self._pieces and not self._choice_made else 0

    # What the client sends

    def whole_came(self, body: bytes) -> None:
        """Take the request's body when it came in one piece."""
        if len(body) > self._service.least_bytes:
            self.body_came(body)
            self.body_ended()
            return
        self._body_bytes = len(body)
        self.body_ns = self.received_ns
        self.body = body
        self._whole()

    def body_came(self, piece: bytes) -> None:
        """Take a piece of the request's body; past the cap for reading it goes straight to an engine."""
        if self.is_closed:
            return
        limits = self._service.limits
        self._body_bytes += len(piece)
        if max(self._body_bytes, self.head.content_length or 0) > limits.body_bytes:
            message = f"the body is larger than {limits.body_bytes} bytes"
            self._refuse(413, "request_too_large", message, Outcome.TOO_LARGE, "too_large")
            return
        if self._choice_made:
            self._pass_piece(piece)
            return
        self._pieces.append(piece)
        if self._body_bytes > limits.read_bytes:
            self._dispatch_unread()

    def body_ended(self) -> None:
        """The request is whole: read it, choose an engine, send it."""
        if self.is_closed:
            return
        self.body_ns = monotonic_ns()
        if self._choice_made:
            self._pass_end()
            return
        pieces = self._pieces
        self.body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._pieces = []
        self._whole()

    def client_gone(self) -> None:
        """The client left: the engine is to stop working for nobody."""
        if self.is_closed:
            return
        attempt = self._attempt
        self.is_closed = True
        self._service.tallies.counts[("client_gone",)] += 1
        self._wait_no_more()
        if attempt is not None:
            attempt.exchange.cancel()
        else:
            self._count("none", Outcome.CLIENT_GONE)
            self._log(None, Outcome.CLIENT_GONE, monotonic_ns())

    def stop(self) -> None:
        """The gateway stops: a request that waits to be sent again is not."""
        why = "the gateway stopped before the request was sent again"
        self._refuse(503, "service_unavailable", why, Outcome.SHUTDOWN, "draining", retry_after_s=1)

    def pause(self) -> None:
        """The client reads slowly: so does the gateway."""
        if self._attempt is not None:
            self._attempt.pause()

    def resume(self) -> None:
        if self._attempt is not None:
            self._attempt.resume()

    def reader_stalled(self) -> None:
        """The client has read nothing for too long: its connection, and with it the engine's, is given up."""
        self.client_gone()
        self._client.cut(reset=True)

    # Choosing

    def _whole(self) -> None:
        """All of the request is here."""
        assert self.body is not None
        try:
            model, self.prompt, self._packed = question.read(self.ask, self.body, self._service)
            self._find_fleet(model)
        except Refused as error:
            self._answer(error)
            return
        self._dispatch()

    def _dispatch_unread(self) -> None:
        """Too large to be read: its model is looked for in what came, load decides, the rest streams by."""
        start = b"".join(self._pieces)
        try:
            self._find_fleet(question.model_of(self.ask, start, self._service))
        except Refused as error:
            self._answer(error)
            return
        self._pieces = [start]
        self._dispatch()

    def _find_fleet(self, model: str | None) -> None:
        self.fleet = question.fleet_of(model, self._service)
        if self.ask.is_opened:
            self._tried = question.barred(self.ask, self.fleet)

    def _dispatch(self) -> None:
        """Choose an engine and send the request, or the start of one whose body goes by."""
        self._wait_no_more()
        service, fleet = self._service, self.fleet
        assert fleet is not None
        chosen = service.fleets.choose(fleet, self.prompt or _NO_PROMPT, self.received_ns / 1e9, self._tried)
        if chosen is None:
            self._no_engine()
            return
        engine, choice = chosen
        self._choice_made = True
        if self.body is None:
            self._send(engine, choice, b"".join(self._pieces))
            if self.body_ns:  # all of it came before a connection did
                self._pass_end()
        else:
            self._send(engine, choice, None)

    def _send(self, engine: Engine, choice: Choice, start: bytes | None, *, fresh: bool = False) -> None:
        service, spec = self._service, engine.spec
        pool = service.pools[engine.id]
        if start is None:
            assert self.body is not None
            data = outgoing.whole(self.ask, self.body, self._packed, spec, pool, self.id)
        else:
            data = outgoing.begun(self.ask, start, spec, pool, self.id)
        attempt = Attempt(self, service, engine, choice)
        self._attempt = attempt
        self._tried += (engine.id,)
        attempt.exchange = pool.send(
            data,
            attempt,
            bodiless=self.ask.is_head,
            streaming=start is not None,
            # A body that goes by cannot be sent again, so it must not meet an idle connection's end.
            fresh=fresh or start is not None,
            flow=self._flow if start is not None else None,
        )
        if self._client.is_full:
            attempt.pause()
        service.active.add(attempt)
        if service.lane.experiments:
            self._offer_copy(attempt)

    def _offer_copy(self, attempt: "Attempt") -> None:
        """Hand the request to the lane, once, after production has it."""
        service = self._service
        if self.copy is None and self.prompt is not None and len(self._tried) == 1 and not self.ask.is_copy:
            assert self.fleet is not None and self.body is not None
            target = self.head.target.decode("latin-1")
            headers, body = self.head.headers, self.body
            if self._packed is not None:
                headers, body = decode_body.plain(self.head).headers, self._packed.body
            self.copy = service.lane.copied(
                self.fleet.spec.model,
                self.id.decode("latin-1"),
                self.ask.path.path,
                target,
                headers,
                body,
                self.prompt,
                self.received_ns,
                attempt.sent_ns,
            )

    def _flow(self, pause: bool) -> None:
        """The engine's connection takes the body slowly, or (again) at once."""
        if not pause:
            self._is_sent = True
            self._pieces = []
        self._client.flow(pause)

    @property
    def body_bytes(self) -> int:
        """How many bytes of the body came."""
        return self._body_bytes

    def _pass_piece(self, piece: bytes) -> None:
        if not self._is_sent:
            self._pieces.append(piece)
        if self._attempt is not None and (data := outgoing.piece(self.ask, piece, last=False)):
            self._attempt.exchange.write(data)

    def _pass_end(self) -> None:
        attempt = self._attempt
        if attempt is None:
            return
        if data := outgoing.piece(self.ask, b"", last=True):
            attempt.exchange.write(data)
        attempt.exchange.finish()

    # What attempts tell

    def may_try_another(self, why: str, at_ns: int, retry_after: bytes = b"") -> bool:
        """Whether a failed attempt may be followed by another: on an engine not tried yet, as a rule.

        Where all were tried, one that said when to come back (`retry_after`) may be asked once more then.
        """
        assert self.fleet is not None
        service = self._service
        if (
            self.began
            or self.is_closed
            or not self.reply.is_open
            or (self.body is None and self._is_sent)
            or self.retries >= service.limits.retries
        ):
            return False
        another = any(engine.up and engine.id not in self._tried for engine in self.fleet.engines)
        delay_s = service.retries.next_delay_s(
            why,
            self.retries,
            another=another,
            rules=service.limits,
            counted=service.tallies,
            now_s=at_ns / 1e9,
            retry_after_s=retry_after_s(retry_after, datetime.now(UTC)) if retry_after else None,
        )
        if delay_s is None:
            return False
        self._delay_s = delay_s
        if not another:
            self._tried = question.barred(self.ask, self.fleet) if self.ask.is_opened else ()
        return True

    def try_another(self, reason: str) -> None:
        """Send the request again, after the time that `may_try_another`, asked just before, has drawn."""
        service = self._service
        self.retries += 1
        service.tallies.retried += 1
        service.tallies.counts[("retries", reason)] += 1
        if self.copy is not None:
            self.copy.reads.clear()  # the failed attempt's words are no part of production's answer
        self._attempt = None
        if not self._delay_s:
            self._dispatch()
            return
        if self.body is None:
            self._client.flow(True)  # until there is a connection to take the body
        service.waiting.add(self)
        self._retry_timer = service.loop.call_later(self._delay_s, self._dispatch)

    def _wait_no_more(self) -> None:
        timer, self._retry_timer = self._retry_timer, None
        if timer is not None:
            timer.cancel()
            self._service.waiting.discard(self)

    def try_same_afresh(self, engine: Engine) -> bool:
        """Once: the reused connection died before it said a word, so the request never began there."""
        if not self._stale_again or self.is_closed or self.reply.head_sent or self.body is None:
            return False
        self._stale_again = False
        self._service.tallies.counts[("retries", "idle_race")] += 1
        choice = self._service.fleets.charge(engine, self.prompt or _NO_PROMPT)
        self._send(engine, choice, None, fresh=True)
        return True

    def finished(self, attempt: Attempt, what: Outcome, at_ns: int) -> None:
        """The answer is whole."""
        self._attempt = None  # relay and attempt would keep one another alive until the next collection
        self._count(attempt.engine.name, what)
        if not self.is_closed:
            self.is_closed = True
            self.reply.finish(attempt.exchange.trailers)
        if self._service.access.share or what is not Outcome.COMPLETE:
            self._log(attempt, what, at_ns)

    def failed(self, attempt: Attempt, ending: Ending, what: Outcome, at_ns: int) -> None:
        """The attempt came to nothing and there is no other: let the client see it, never a clean end."""
        if self._attempt is not attempt:
            return  # the request was refused meanwhile, and counted so
        self._attempt = None
        self._count(attempt.engine.name, what)
        if not self.is_closed:
            self.is_closed = True
            self._tell_failure(ending)
        self._log(attempt, what, at_ns)

    def _tell_failure(self, ending: Ending) -> None:
        why = f"the engine's answer ended early ({ending.value})"
        if ending is Ending.SHUTDOWN:
            why = "the gateway stopped, or stopped using this engine, before the answer was whole"
        elif ending is Ending.FULL:
            why = "the gateway has no connection towards the engine to spare; try again in a moment"
        if self.reply.head_sent:
            self.reply.cut(why)
            return
        status, kind = _FAILED_STATUS.get(ending, 502), "upstream_" + ending.value
        if ending is Ending.REFUSED and self.fleet is not None and not self.fleet.is_up:
            status, kind, why = 503, "service_unavailable", f"no engine of {self.fleet.name} is available"
        again_s = 1 if status == 503 else None
        self.status = status
        self._client.refuse(status, kind, why, None, retry_after_s=again_s, request=self.head)
        self._client.answered(close=self._client.is_unread)

    def _no_engine(self) -> None:
        assert self.fleet is not None
        message = f"no engine of {self.fleet.name} is available"
        self._refuse(503, "service_unavailable", message, Outcome.NO_ENGINE, "no_engine", retry_after_s=2)

    def _answer(self, error: Refused) -> None:
        self._refuse(
            error.status, error.kind, error.message, error.what, error.reason,
            code=error.code, param=error.param,
        )  # fmt: skip

    def _refuse(
        self, status: int, kind: str, message: str, what: Outcome, reason: str, *,
        code: str | None = None, param: str | None = None, retry_after_s: int | None = None,
    ) -> None:  # fmt: skip
        self._count("none", what)
        self._service.tallies.counts[("refused", reason)] += 1
        self._wait_no_more()
        attempt, self._attempt = self._attempt, None
        self.is_closed = True
        if attempt is not None:
            attempt.exchange.cancel()
        if self.reply.head_sent:
            self._client.cut()
        else:
            self.status = status
            self._client.refuse(
                status, kind, message, code, param=param, retry_after_s=retry_after_s, request=self.head
            )
            self._client.answered(close=self._client.is_unread)
        self._log(attempt, what, monotonic_ns())

    def _log(self, attempt: Attempt | None, what: Outcome, at_ns: int) -> None:
        """Write the request's line into the access log, where it is wanted."""
        if self._service.access.wants(what, at_ns / 1e9):
            access_line.write(self._service.access, self, attempt, what, at_ns)

    def _count(self, engine: str, what: Outcome) -> None:
        fleet = self.fleet.name if self.fleet is not None else "none"
        self._service.tallies.counts["requests", fleet, engine, what] += 1


_NO_PROMPT = Prompt(model=None, chain=(), ends=(), root=0, turns=0, stream=False, max_tokens=None)
