"""The client's side of one request: from its head to the last byte of its answer.

No method waits.  `Relay` is the client's side: what was asked, what was already sent back.  An `Attempt`
is one engine's side.  A failed attempt may be followed by another on another engine until the first event
has been passed on, and never after.
"""

from typing import TYPE_CHECKING

from gateway import decode_body, outgoing, question
from gateway.ask import Ask
from gateway.attempt import Attempt
from gateway.decode_body import Decoded
from gateway.fleet import Engine, Fleet
from gateway.lane_link import Copy
from gateway.outcome import Outcome
from gateway.question import Refused
from gateway.reply import Reply
from gateway.service import Service
from routing.types import Choice, Prompt
from wire.upstream import Ending

if TYPE_CHECKING:
    from gateway.server import Connection

_FAILED_STATUS = {Ending.TIMEOUT: 504, Ending.SHUTDOWN: 503, Ending.FULL: 503}


class Relay:
    """The client's side of one request."""

    __slots__ = (
        "_attempt",
        "_body_bytes",
        "_choice_made",
        "_client",
        "_packed",
        "_pieces",
        "_service",
        "_stale_again",
        "_tried",
        "ask",
        "began",
        "body",
        "copy",
        "fleet",
        "head",
        "id",
        "is_closed",
        "prompt",
        "received_ns",
        "reply",
        "retries_left",
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
        self.retries_left = service.limits.retries
        self._attempt: Attempt | None = None
        self._pieces: list[bytes] = []
        self._body_bytes = 0
        self._tried: tuple[int, ...] = ()
        self._stale_again = True
        self._choice_made = False
        self._packed: Decoded | None = None  # what a compressed body is, as far as it is read

    @property
    def upload(self) -> tuple[int, int]:
        """How many bytes of the body came, and how many of them wait here for the rest."""
        return self._body_bytes, self._body_bytes if self._pieces else 0

    # What the client sends

    def whole_came(self, body: bytes) -> None:
        """Take the request's body when it came in one piece."""
        if len(body) > self._service.least_bytes:
            self.body_came(body)
            self.body_ended()
            return
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
        if self._choice_made:
            self._pass_piece(b"", last=True)
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
        if attempt is not None:
            attempt.exchange.cancel()
        else:
            self._count("none", Outcome.CLIENT_GONE)

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
        self._pieces = []
        self._dispatch(start)

    def _find_fleet(self, model: str | None) -> None:
        self.fleet = question.fleet_of(model, self._service)
        if self.ask.is_opened:
            self._tried = question.barred(self.ask, self.fleet)

    def _dispatch(self, start: bytes | None = None) -> None:
        """Choose an engine and send the request; `start` is the beginning of a body that goes on."""
        service, fleet = self._service, self.fleet
        assert fleet is not None
        chosen = service.fleets.choose(fleet, self.prompt or _NO_PROMPT, self.received_ns / 1e9, self._tried)
        if chosen is None:
            self._no_engine()
            return
        engine, choice = chosen
        self._choice_made = True
        self._send(engine, choice, start)

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
            flow=self._client.flow if start is not None else None,
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

    def _pass_piece(self, piece: bytes, *, last: bool = False) -> None:
        attempt = self._attempt
        if attempt is None:
            return
        if data := outgoing.piece(self.ask, piece, last=last):
            attempt.exchange.write(data)
        if last:
            attempt.exchange.finish()

    # What attempts tell

    def may_try_another(self) -> bool:
        """Whether a failed attempt may be followed by one on an engine not tried yet."""
        assert self.fleet is not None
        return (
            not self.began
            and not self.is_closed
            and self.reply.is_open
            and self.body is not None
            and self.retries_left > 0
            and self._service.may_retry()
            and any(engine.up and engine.id not in self._tried for engine in self.fleet.engines)
        )

    def try_another(self, reason: str) -> None:
        """Send the request to an engine not tried yet; `may_try_another` was asked just before."""
        self.retries_left -= 1
        self._service.tallies.retried += 1
        self._service.tallies.counts[("retries", reason)] += 1
        if self.copy is not None:
            self.copy.reads.clear()  # the failed attempt's words are no part of production's answer
        self._dispatch()

    def try_same_afresh(self, engine: Engine) -> bool:
        """Once: the reused connection died before it said a word, so the request never began there."""
        if not self._stale_again or self.is_closed or self.reply.head_sent or self.body is None:
            return False
        self._stale_again = False
        self._service.tallies.counts[("retries", "idle_race")] += 1
        choice = self._service.fleets.charge(engine, self.prompt or _NO_PROMPT)
        self._send(engine, choice, None, fresh=True)
        return True

    def finished(self, attempt: Attempt, what: Outcome) -> None:
        """The answer is whole."""
        self._attempt = None  # relay and attempt would keep one another alive until the next collection
        self._count(attempt.engine.name, what)
        if not self.is_closed:
            self.is_closed = True
            self.reply.finish(attempt.exchange.trailers)

    def failed(self, attempt: Attempt, ending: Ending, what: Outcome) -> None:
        """The attempt came to nothing and there is no other: let the client see it, never a clean end."""
        if self._attempt is not attempt:
            return  # the request was refused meanwhile, and counted so
        self._attempt = None
        self._count(attempt.engine.name, what)
        if self.is_closed:
            return
        self.is_closed = True
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
        attempt, self._attempt = self._attempt, None
        self.is_closed = True
        if attempt is not None:
            attempt.exchange.cancel()
        if self.reply.head_sent:
            self._client.cut()
            return
        self._client.refuse(
            status, kind, message, code, param=param, retry_after_s=retry_after_s, request=self.head
        )
        self._client.answered(close=self._client.is_unread)

    def _count(self, engine: str, what: Outcome) -> None:
        fleet = self.fleet.name if self.fleet is not None else "none"
        self._service.tallies.counts["requests", fleet, engine, what] += 1


_NO_PROMPT = Prompt(model=None, chain=(), ends=(), root=0, turns=0, stream=False, max_tokens=None)
