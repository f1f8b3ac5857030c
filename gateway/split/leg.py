"""The legs of a split request as attempts: what is different when an engine computes only half of an answer.

Load, health and timeouts are those of every attempt (`gateway.attempt`).  What an engine that prefills says
besides "done" is its client's answer: a request that it refuses is refused.
"""

from typing import TYPE_CHECKING, Final

from gateway import again, decode_body
from gateway.attempt import Attempt
from gateway.fleets.fleet import Engine
from gateway.outcome import Outcome, outcome
from gateway.service import Service
from gateway.tail import Tail
from gateway.usage import usage
from routing.types import Choice
from wire.exchange import Ending
from wire.response import ResponseHead

if TYPE_CHECKING:
    from gateway.relay import Relay
    from gateway.split.legs import Legs

# 64 bytes for each block of a prompt of a million tokens.
_ANSWER_BYTES: Final = 4 << 20
_NOT_SENT: Final = frozenset({Ending.REFUSED, Ending.FULL})


def _legs(attempt: Attempt) -> "Legs":
    legs = attempt._relay.legs
    assert legs is not None
    return legs


def _how(attempt: Attempt, ending: Ending) -> str:
    """How a leg is over, in one word."""
    return attempt.replaced or outcome(ending, attempt.status, attempt._tail).value


class PrefillFirst(Attempt):
    """vLLM's first leg: its answer is kept, and none of it is the client's."""

    __slots__ = ("_answer", "_is_kept")

    def __init__(self, relay: "Relay", service: Service, engine: Engine, choice: Choice) -> None:
        super().__init__(relay, service, engine, choice)
        self._answer: list[bytes] = []
        self._is_kept = False

    def head_came(self, response: ResponseHead, at_ns: int, *, more: bool) -> None:
        if response.status != 200:
            super().head_came(response, at_ns, more=more)
            return
        self.engine.answered(at_ns)
        self.last_ns = self.head_ns = at_ns
        self._head = response
        self._is_kept = True

    def body_came(self, body: bytes, at_ns: int, framed: bytes | None) -> None:
        if not self._is_kept:
            super().body_came(body, at_ns, framed)
            return
        self.last_ns = at_ns
        self.body_bytes += len(body)
        if self.token_ns == 0:
            self._token_came(at_ns)
        if self.body_bytes <= _ANSWER_BYTES:
            self._answer.append(body)

    def ended(self, ending: Ending, at_ns: int) -> None:
        if self._is_kept and ending is Ending.COMPLETE:
            self._let_go()
            answer = self._kept()
            told = usage((answer,), False)
            self.engine.streamed(self.choice, self.sent_ns, self.token_ns or at_ns, at_ns, told)
            _legs(self).prefilled(self._relay, self, answer, at_ns)
            return
        relay, exchange = self._relay, self.exchange
        stale = ending is Ending.CUT and exchange.reused and not exchange.heard
        if stale and again.try_same_afresh(
            relay, self._service, self.engine
        ):  # better than the one that decodes doing it all
            self._let_go()
            return
        if self._is_kept:
            self.token_ns = 0  # it was no client's
        _legs(self).count("prefill", _how(self, ending), relay)
        super().ended(ending, at_ns)

    def _kept(self) -> bytes:
        """The answer, plain; empty where it is too long or coded in a way nobody knows."""
        assert self._head is not None
        answer = b"".join(self._answer)
        codings = [one.strip() for one in self._head.field(b"content-encoding").lower().split(b",") if one]
        if self.body_bytes > _ANSWER_BYTES:
            return b""
        try:
            return decode_body.decoded(codings, answer, _ANSWER_BYTES).body if codings else answer
        except decode_body.Undecodable:
            return b""


class DecodeLeg(Attempt):
    """The leg whose answer is the client's."""

    __slots__ = ("_is_dropped",)

    def __init__(self, relay: "Relay", service: Service, engine: Engine, choice: Choice) -> None:
        super().__init__(relay, service, engine, choice)
        self._is_dropped = False

    @property
    def has_begun(self) -> bool:
        """Something of an answer came: the prompt was computed and fetched."""
        return self.token_ns > 0 or self._relay.began

    def drop(self) -> None:
        """The other leg speaks for the request now."""
        self._is_dropped = True
        self.exchange.cancel()

    def ended(self, ending: Ending, at_ns: int) -> None:
        relay, legs = self._relay, _legs(self)
        legs.count("decode", "dropped" if self._is_dropped else _how(self, ending), relay)
        if self._is_dropped:
            self._let_go()
            return
        beside = legs.beside
        if ending is Ending.TIMEOUT and beside is not None and beside.may_speak(ending):
            self._let_go()
            self.engine.timed_out(self.sent_ns, at_ns)
            beside.exchange.cancel(ending)
            return
        # Nobody has read where the KV lies, so it lies there still.
        legs.keeps_kv = legs.keeps_kv and ending in _NOT_SENT and not self.exchange.written_ns
        legs.decode = legs.beside = None
        if beside is not None and ending is not Ending.COMPLETE:
            beside.drop()
        super().ended(ending, at_ns)

    def _close_books(self, ending: Ending, at_ns: int, what: Outcome) -> None:
        samples = self.engine.samples
        known = len(samples)
        super()._close_books(ending, at_ns, what)
        del samples[known:]  # its first token tells how long a transfer took: nothing of computing prompts

    def _awaited_ns(self) -> int:
        legs = _legs(self)
        first_leg_ns = legs.handed_ns - legs.prefill_ns if legs.handed_ns else 0
        return super()._awaited_ns() + first_leg_ns


class PrefillBeside(Attempt):
    """SGLang's leg that prefills, beside the one that decodes.

    Its answer is heard out and thrown away.  When it fails before the other has begun, the other would wait
    in vain: this one then speaks for the request, and the other is dropped.
    """

    __slots__ = ("_is_dropped", "_speaks")

    def __init__(self, relay: "Relay", service: Service, engine: Engine, choice: Choice) -> None:
        super().__init__(relay, service, engine, choice)
        self._is_dropped = False
        self._speaks = False

    def drop(self) -> None:
        """The other leg is over, or will be: nobody needs this one's work."""
        self._is_dropped = True
        self.exchange.cancel()

    def head_came(self, response: ResponseHead, at_ns: int, *, more: bool) -> None:
        if response.status >= 400 and self.may_speak():
            super().head_came(response, at_ns, more=more)
            return
        self.engine.answered(at_ns)
        self.last_ns = self.head_ns = at_ns
        self._head = response
        if response.is_events:
            self._tail = Tail()

    def body_came(self, body: bytes, at_ns: int, framed: bytes | None) -> None:
        if self._speaks:
            super().body_came(body, at_ns, framed)
            return
        self.last_ns = at_ns
        if self.token_ns == 0:
            self._token_came(at_ns)
        if self._tail is not None:
            self._tail.add(body)

    def ended(self, ending: Ending, at_ns: int) -> None:
        relay, legs = self._relay, _legs(self)
        if not self._speaks and legs.engine is self.engine:
            legs.sent_ns, legs.end_ns = self.sent_ns, at_ns
        legs.count("prefill", "dropped" if self._is_dropped else _how(self, ending), relay)
        if self._is_dropped:
            self._let_go()
        elif self._speaks:
            super().ended(ending, at_ns)
        elif ending is Ending.COMPLETE and not (self._tail is not None and self._tail.has_error):
            self._let_go()
        elif self.may_speak(ending):
            self.token_ns = 0
            self._tail = None
            super().ended(Ending.MALFORMED if ending is Ending.COMPLETE else ending, at_ns)
        else:
            if ending is Ending.REFUSED:
                self.engine.failed("no connection")
            self._let_go()

    def may_speak(self, ending: Ending | None = None) -> bool:
        """Take over from a leg that waits for this one; False: it has begun, or is over.

        By a timeout's `ending` it is open which of the two made the other wait.
        """
        relay, legs = self._relay, _legs(self)
        decode = legs.decode
        if self._speaks:
            return True
        if decode is None or legs.beside is not self or decode.has_begun or relay.is_closed:
            return False
        self._speaks = True
        legs.beside = legs.decode = None
        relay.over_to(self, decode.engine.id)
        if ending is Ending.TIMEOUT:
            legs.suspect(relay, self.engine, decode.engine)
        decode.drop()
        return True

    def _let_go(self) -> None:
        legs = _legs(self)
        if legs.beside is self:
            legs.beside = None
        super()._let_go()
