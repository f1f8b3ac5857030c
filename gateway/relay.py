"""The client's side of one request: from its head to the last byte of its answer.

No method waits.  `Relay` is the client's side: what was asked, what was already sent back.  An `Attempt`
is one engine's side.  A failed attempt may be followed by another on another engine until the first event
has been passed on, and never after.
"""

from typing import TYPE_CHECKING

from gateway import access_line, along, copying, outgoing, question, turnstile
from gateway.admission.ticket import Ticket
from gateway.again import Again, another_is_busy, no_more
from gateway.ask import Ask
from gateway.attempt import Attempt
from gateway.copied import Copy
from gateway.decode_body import Decoded
from gateway.failure import failure, stopping, too_large
from gateway.fleets.fleet import Engine, Fleet
from gateway.outcome import Outcome
from gateway.passing import Passing
from gateway.refused import Refused
from gateway.reply import Reply
from gateway.service import Service
from gateway.split import legs as split
from gateway.turnstile import NO_PROMPT
from routing.types import Choice, Prompt
from wire.clock import monotonic_ns
from wire.exchange import Ending

if TYPE_CHECKING:
    from gateway.clients.server import Connection
    from gateway.split.legs import Legs


class Relay:
    """The client's side of one request."""

    __slots__ = (
        "_attempt",
        "_client",
        "_passing",
        "_pieces",
        "_service",
        "again",
        "ask",
        "began",
        "body",
        "body_bytes",
        "body_ns",
        "copy",
        "fleet",
        "head",
        "id",
        "is_closed",
        "legs",
        "named",
        "observed",
        "packed",
        "prompt",
        "received_ns",
        "reply",
        "stale_again",
        "status",
        "ticket",
        "tried",
    )

    def __init__(self, service: Service, client: "Connection", ask: Ask, received_ns: int, id: bytes) -> None:
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
        self.observed: Copy | None = None  # the same, where the answer is to be kept as it passes
        self.reply = Reply(client, ask, id)
        self.legs: Legs | None = None  # where two engines make one answer
        self.ticket: Ticket | None = None  # what it holds, where requests are limited
        self.began = False  # something of an answer itself, not only comments, was given to the client
        self.is_closed = False
        self.status = 0  # what the gateway itself told the client in place of an engine's answer
        self.body_ns = 0  # when the request was whole
        self._attempt: Attempt | None = None
        self.again: Again | None = None  # once an attempt has failed
        self._pieces: list[bytes] = []  # of the body, until it is whole or goes by
        self._passing: Passing | None = None  # a body that goes by unread
        self.body_bytes = 0  # as many as came
        self.tried: tuple[int, ...] = ()
        self.stale_again = True  # it may yet be sent once more because its connection was stale
        self.packed: Decoded | None = None  # what a compressed body is, as far as it is read
        self.named: str | None = None  # the model for engines, where another fleet took this over

    @property
    def upload(self) -> tuple[int, int]:
        """How many bytes of the body came, and how many of them wait here for the rest."""
        return self.body_bytes, self.body_bytes if self._pieces else 0

    @property
    def retries(self) -> int:
        """Made so far."""
        return 0 if self.again is None else self.again.made

    # What the client sends

    def whole_came(self, body: bytes) -> None:
        """Take the request's body when it came in one piece."""
        if len(body) > self._service.least_bytes:
            self.body_came(body)
            self.body_ended()
            return
        self.body_bytes = len(body)
        self.body_ns = self.received_ns
        self.body = body
        self._whole()

    def body_came(self, piece: bytes) -> None:
        """Take a piece of the request's body; past the cap for reading it goes straight to an engine."""
        if self.is_closed:
            return
        limits = self._service.limits
        self.body_bytes += len(piece)
        if self.body_bytes > limits.body_bytes:
            self._too_large()
            return
        if self._passing is not None:
            self._passing.piece_came(piece)
            return
        self._pieces.append(piece)
        if self.body_bytes > limits.read_bytes:
            self._dispatch_unread()

    def head_came(self) -> bool:
        """Refuse what its head says already is too large; False when it is not asked to go on."""
        if (self.head.content_length or 0) <= self._service.limits.body_bytes:
            return True
        self._too_large()
        return False

    def _too_large(self) -> None:
        self.refuse(too_large(self._service.limits.body_bytes))

    def body_ended(self) -> None:
        """The request is whole: read it, choose an engine, send it."""
        if self.is_closed:
            return
        self.body_ns = monotonic_ns()
        if self._passing is not None:
            self._passing.ended()
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
        no_more(self)
        if attempt is not None:
            attempt.exchange.cancel()
        else:
            self._count("none", Outcome.CLIENT_GONE)
            self._log(None, Outcome.CLIENT_GONE, monotonic_ns())

    def stop(self) -> None:
        """The gateway stops: a request that waits to be sent again is not."""
        self.refuse(stopping())

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
            model, self.prompt, self.packed = question.read(self.ask, self.body, self._service)
            self._find_fleet(model)
        except Refused as error:
            self.refuse(error)
            return
        if self._service.admission is None:
            self.dispatch()
        else:
            turnstile.enter(self, self._service)

    def _dispatch_unread(self) -> None:
        """Too large to be read: its model is looked for in what came, load decides, the rest streams by."""
        start = b"".join(self._pieces)
        try:
            self._find_fleet(question.model_of(self.ask, start, self._service))
        except Refused as error:
            self.refuse(error)
            return
        self._pieces = []
        self._passing = Passing(self.ask, start, self._client.flow)
        if self._service.copies and self.fleet is not None and not self.ask.is_copy:
            self._service.lane.unread(self.fleet.spec.model, self.id, self.ask.path.path)
        if self._service.admission is None:
            self.dispatch()
        else:
            turnstile.enter(self, self._service)

    def _find_fleet(self, model: str | None) -> None:
        self.fleet = question.fleet_of(model, self._service)
        if self.ask.is_opened:
            self.tried = question.barred(self.ask, self.fleet)

    def moved(self, fleet: Fleet) -> None:
        """Another fleet takes it over, whose engines know another model."""
        self.fleet = fleet
        self.named = fleet.spec.model

    def dispatch(self) -> None:
        """Choose an engine and send the request, or as much as came of one whose body goes by."""
        service, fleet = self._service, self.fleet
        assert fleet is not None
        if fleet.split is not None:
            split.dispatch(self, service, fleet.split)
            return
        at_s, prompt, ticket = self.received_ns / 1e9, self.prompt or NO_PROMPT, self.ticket
        chosen = turnstile.choose(ticket, service.fleets, fleet, prompt, at_s, self.tried)
        if chosen is None:
            chosen = turnstile.choose_again(self, service.fleets, fleet, at_s)
        if chosen is not None:
            engine, choice = chosen
            self.send(engine, choice)

    def send(self, engine: Engine, choice: Choice, *, fresh: bool = False) -> None:
        """Send it, or the leg of it that is due, to an engine that is charged with it already."""
        service, spec, passing = self._service, engine.spec, self._passing
        pool = service.pools[engine.id]
        if passing is None:
            body, packed, attempt = along.prepared(self, service, engine, choice)
            data = outgoing.whole(self.ask, body, packed, spec, pool, self.id, self.named)
        else:
            data = outgoing.begun(self.ask, passing.start, spec, pool, self.id, self.named)
            attempt = Attempt(self, service, engine, choice)
        self._attempt = attempt
        self.tried += (engine.id,)
        attempt.exchange = pool.send(
            data,
            attempt,
            bodiless=self.ask.is_head,
            streaming=passing is not None,
            # A body that goes by cannot be sent again, so it must not meet an idle connection's end.
            fresh=fresh or passing is not None,
            flow=passing.flow if passing is not None else None,
        )
        if passing is not None:
            passing.begun(attempt.exchange)
        if self._client.is_full:
            attempt.pause()
        service.active.add(attempt)
        if service.copies and self.again is None and self.stale_again and self.named is None:
            self.copy = copy = copying.offered(self, service.lane, attempt.sent_ns)
            self.observed = copy if copy is not None and copy.is_kept else None
        if self.fleet is not None and self.fleet.lessons is not None:
            self.fleet.lessons.sent(self, engine.id)

    # What attempts tell

    @property
    def may_begin_again(self) -> bool:
        """Nothing of an answer was given, the client is there, and what it sent is still here to be sent."""
        return (
            not self.began
            and not self.is_closed
            and self.reply.is_open
            and not (self._passing is not None and self._passing.is_taken)
        )

    def attempt_failed(self) -> None:
        """The attempt before this moment is over, and another follows: nothing of it is kept."""
        if self.observed is not None:
            self._service.lane.forget(self.observed)  # its words are no part of production's answer
        self._attempt = None
        if self._passing is not None:
            self._passing.wait()

    def over_to(self, attempt: Attempt | None, innocent: int) -> None:
        """That attempt answers from now on, if any; the engine of the one before may be asked again."""
        self._attempt = attempt
        tried = tuple(id for id in self.tried if id != innocent)
        self.tried = tried if attempt is None else (*tried, attempt.engine.id)

    def finished(self, attempt: Attempt, what: Outcome, at_ns: int) -> None:
        """The answer is whole."""
        self._attempt = None  # relay and attempt would keep one another alive until the next collection
        self._count(attempt.engine.name, what, attempt)
        if not self.is_closed:
            self.is_closed = True
            self.reply.finish(attempt.exchange.trailers, at_ns)
        if self._service.access.share or what is not Outcome.COMPLETE:
            self._log(attempt, what, at_ns)

    def failed(self, attempt: Attempt, ending: Ending, what: Outcome, at_ns: int) -> None:
        """The attempt came to nothing and there is no other: let the client see it, never a clean end."""
        if self._attempt is not attempt:
            return  # the request was refused meanwhile, and counted so
        self._attempt = None
        self._count(attempt.engine.name, what, attempt)
        if not self.is_closed:
            self.is_closed = True
            said = failure(ending, what, self.fleet, busy=another_is_busy(self.again, attempt.engine.id))
            if self.reply.head_sent:
                self.reply.cut(said.message)
            else:
                self._tell(said)
        self._log(attempt, what, at_ns)

    def refuse(self, said: Refused) -> None:
        """Answer in place of an engine, or end what an engine has begun to answer."""
        self._count("none", said.what)
        self._service.tallies.counts[("refused", said.reason)] += 1
        no_more(self)
        attempt, self._attempt = self._attempt, None
        self.is_closed = True
        if attempt is not None:
            attempt.exchange.cancel()
        if self.reply.head_sent:
            self.reply.cut(said.message)
        else:
            self._tell(said)
        self._log(attempt, said.what, monotonic_ns())

    def _tell(self, said: Refused) -> None:
        self.status = said.status
        self._client.refuse(said, self.ask)
        self._client.answered(monotonic_ns(), close=self._client.is_unread)

    def _log(self, attempt: Attempt | None, what: Outcome, at_ns: int) -> None:
        """Write the request's line into the access log, where it is wanted."""
        drawn = None if attempt is None else attempt.choice.costs is not None
        if self._service.access.wants(what, at_ns / 1e9, drawn=drawn):
            access_line.write(self._service.access, self, attempt, what, at_ns)

    def _count(self, engine: str, what: Outcome, attempt: Attempt | None = None) -> None:
        """The one place where a request's end is counted and what it holds is released."""
        fleet, tallies, ticket = self.fleet, self._service.tallies, self.ticket
        if what is Outcome.COMPLETE and fleet is not None:
            fleet.answered(tallies).completed(engine)
        else:
            tallies.counts["requests", "none" if fleet is None else fleet.name, engine, what] += 1
        if ticket is not None:
            self.ticket = None
            is_answered = attempt is not None and attempt.token_ns > 0 and attempt.status < 400
            told = None if attempt is None else attempt.usage
            turnstile.ended(ticket, what, answered=is_answered, told=told)
