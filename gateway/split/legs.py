"""One request's way over two engines: which leg is sent when, what each gets, what is known of the first.

No method waits.  The request's relay goes on as with one engine: it has one attempt at a time, and whichever
leg that is, its failure before the answer begins may be followed by another attempt.  vLLM's way is two legs
one after the other, SGLang's two at once, where the one that prefills runs beside the relay's attempt.
"""

from enum import Enum
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from gateway import outgoing, turnstile
from gateway.access_log import Prefill
from gateway.attempt import Attempt
from gateway.decode_body import Decoded
from gateway.failure import unavailable
from gateway.fleets.fleet import Engine, Fleet
from gateway.service import Service
from gateway.split import bodies
from gateway.split.leg import DecodeLeg, PrefillBeside, PrefillFirst
from gateway.split.roles import SGLANG, Roles
from gateway.split.splice import NotAnObject, Object, read
from gateway.turnstile import NO_PROMPT
from routing.types import Choice

if TYPE_CHECKING:
    from gateway.relay import Relay

_ROOM_BITS: Final = 63
_draw: Final = SystemRandom().getrandbits  # rooms are not to be guessed, nor drawn by two workers


class Phase(Enum):
    """What the relay's attempt is."""

    WHOLE = "whole"
    PREFILL = "prefill"
    DECODE = "decode"


class Legs:
    """The legs of one request.  The relay is an argument, as in `gateway.again`."""

    __slots__ = (
        "_asked", "_body", "_fresh", "_phase", "_service",
        "beside", "choice", "decode", "end_ns", "engine", "handed_ns", "is_first", "keeps_kv", "prefill_ns",
        "sent_ns", "transfer",
    )  # fmt: skip

    def __init__(self, service: Service) -> None:
        self._service = service
        self._asked: Object | None = None
        self._phase = Phase.WHOLE
        self._body: bytes | None = None  # what the leg being sent gets in place of the client's
        self._fresh = False
        self.is_first = True  # no leg was sent yet
        self.keeps_kv = False  # the prompt is computed and nobody has fetched it
        self.transfer: bytes | None = None  # where the KV lies, as the engine that has it says
        self.beside: PrefillBeside | None = None  # what runs beside the relay's attempt
        self.decode: DecodeLeg | None = None  # and what it runs beside
        self.handed_ns = 0  # when the other leg could follow; 0 where it did not wait
        # Of the last leg that prefills: its engine, why, and when it was chosen, sent and over.
        self.engine: Engine | None = None
        self.choice: Choice | None = None
        self.prefill_ns = 0
        self.sent_ns = 0
        self.end_ns = 0

    # Which leg

    def go(self, relay: "Relay", roles: Roles) -> None:
        """Send the leg, or the legs, that are to be sent now."""
        style = roles.style
        if not style:
            assert relay.fleet is not None
            relay.refuse(unavailable(relay.fleet))  # none of its engines was heard yet
            return
        why = self._not_split(relay, roles, style)
        if why:
            self._send_whole(relay, roles, why)
        elif style == SGLANG:
            self._send_pair(relay, roles)
        elif self.keeps_kv:
            self._send_decode(relay, roles)
        else:
            self._send_prefill(relay, roles)

    def _not_split(self, relay: "Relay", roles: Roles, style: str) -> str:
        """Why one engine is to do it all; empty where two are."""
        prompt = relay.prompt
        if relay.body is None:
            return "unread"
        if prompt is None or relay.ask.path.path not in bodies.PATHS[style]:
            return "path"
        asked = self._read(relay)
        if asked is None:
            return "unreadable"
        if style != SGLANG and not bodies.is_one_sequence(asked):
            return "sequences"
        return "short" if roles.is_short(prompt) else ""

    def _read(self, relay: "Relay") -> Object | None:
        """The members of the request's body; None where it is none of JSON."""
        if self._asked is None and relay.body is not None and relay.prompt is not None:
            packed = relay.packed
            try:
                self._asked = read(relay.body if packed is None else packed.body)
            except NotAnObject:
                return None
        return self._asked

    def _send_whole(self, relay: "Relay", roles: Roles, why: str) -> None:
        fleet = relay.fleet
        assert fleet is not None
        chosen = self._choose(relay, fleet if relay.ask.is_opened else roles.whole, relay.received_ns)
        if chosen is None:
            return
        self._service.tallies.counts["split_whole", fleet.name, why] += 1
        asked = self._read(relay)
        self._send(relay, Phase.WHOLE, chosen, None if asked is None else bodies.whole(asked))

    def _send_prefill(self, relay: "Relay", roles: Roles) -> None:
        assert self._asked is not None
        chosen = None
        if roles.decode.has_other(relay.tried):  # else it would be computed for nobody
            chosen = self._chosen(relay, roles.prefill, relay.received_ns)
        if chosen is None:  # better the prompt is computed where it is continued than not at all
            self._send_whole(relay, roles, "no_pair")
        elif chosen[0].spec.role == "both":
            self._service.tallies.counts["split_whole", roles.prefill.name, "both"] += 1
            self._send(relay, Phase.WHOLE, chosen, bodies.whole(self._asked))
        else:
            self._send(relay, Phase.PREFILL, chosen, bodies.to_prefill(self._asked))

    def _send_decode(self, relay: "Relay", roles: Roles) -> None:
        assert self._asked is not None
        chosen = self._choose(relay, roles.decode, self.handed_ns)
        if chosen is not None:
            self._send(relay, Phase.DECODE, chosen, bodies.handed(self._asked, self.transfer))

    def _send_pair(self, relay: "Relay", roles: Roles) -> None:
        assert self._asked is not None
        assert relay.fleet is not None
        fleets, at_s = self._service.fleets, relay.received_ns / 1e9
        prefill = fleets.choose(roles.prefill, relay.prompt or NO_PROMPT, at_s, relay.tried)
        decode = None if prefill is None else self._chosen(relay, roles.decode, relay.received_ns)
        if prefill is None or decode is None:
            if prefill is not None:
                turnstile.give_back(fleets, prefill, relay.prompt or NO_PROMPT)
            if roles.whole.engines != roles.decode.engines:
                self._send_whole(relay, roles, "no_pair")
            else:
                relay.refuse(unavailable(relay.fleet))
            return
        engine, choice = prefill
        pool = self._service.pools[engine.id]
        host = pool.origin.host
        host = f"[{host}]" if ":" in host else host
        path, port = relay.ask.path.path, engine.spec.bootstrap_port
        body = bodies.meeting(path, self._asked, host, port, lambda: _draw(_ROOM_BITS))
        self._send(relay, Phase.DECODE, decode, body)
        self.beside = beside = PrefillBeside(relay, self._service, engine, choice)
        self._note(beside)
        data = outgoing.whole(relay.ask, *self.body(relay), engine.spec, pool, relay.id, relay.named)
        beside.exchange = pool.send(data, beside, fresh=True)
        self._service.active.add(beside)

    def _send(self, relay: "Relay", phase: Phase, chosen: tuple[Engine, Choice], body: bytes | None) -> None:
        self._phase, self._body = phase, body
        fresh, self._fresh = self._fresh, False
        relay.send(*chosen, fresh=fresh)
        self.is_first = False

    # Choosing

    def _choose(self, relay: "Relay", side: Fleet, at_ns: int) -> tuple[Engine, Choice] | None:
        """Choose as the relay would; None: there is nobody, and the client was told."""
        chosen = self._chosen(relay, side, at_ns)
        if chosen is None:
            chosen = turnstile.choose_again(relay, self._service.fleets, side, at_ns / 1e9)
        return chosen

    def _chosen(self, relay: "Relay", side: Fleet, at_ns: int) -> tuple[Engine, Choice] | None:
        fleets, prompt = self._service.fleets, relay.prompt or NO_PROMPT
        return turnstile.choose(relay.ticket, fleets, side, prompt, at_ns / 1e9, relay.tried)

    # What the relay asks

    def body(self, relay: "Relay") -> tuple[bytes, Decoded | None]:
        """The body that the leg gets, and what it is where it came compressed."""
        assert relay.body is not None
        packed = relay.packed
        if self._body is None or self._asked is None or self._body is self._asked.text:
            return relay.body, packed
        if packed is None:
            return self._body, None
        return relay.body, Decoded(self._body, whole=True, is_changed=True)

    def attempt(self, relay: "Relay", engine: Engine, choice: Choice) -> Attempt:
        """The attempt that receives what the engine answers to the leg."""
        if self._phase is Phase.PREFILL:
            first = PrefillFirst(relay, self._service, engine, choice)
            self._note(first)
            return first
        if self._phase is Phase.DECODE:
            self.decode = DecodeLeg(relay, self._service, engine, choice)
            return self.decode
        return Attempt(relay, self._service, engine, choice)

    def afresh(self, relay: "Relay", engine: Engine) -> None:
        """The connection was over before the leg began on it: all of what is not done yet begins again."""
        self._fresh = True
        self.keeps_kv = self._phase is Phase.DECODE
        relay.over_to(None, engine.id)
        relay.dispatch()

    # What the legs tell

    def _note(self, leg: Attempt) -> None:
        self.engine, self.choice, self.prefill_ns = leg.engine, leg.choice, leg.chosen_ns
        self.sent_ns = self.handed_ns = self.end_ns = 0

    def prefilled(self, relay: "Relay", leg: PrefillFirst, answer: bytes, at_ns: int) -> None:
        """vLLM's first leg is done: its engine has the KV, and the second leg follows."""
        self.transfer = bodies.transfer_of(answer)
        self.sent_ns, self.end_ns = leg.sent_ns, at_ns
        self.handed_ns = at_ns
        self.keeps_kv = True
        self.count("prefill", "complete" if self.transfer is not None else "no_kv", relay)
        relay.over_to(None, leg.engine.id)
        relay.dispatch()

    def suspect(self, relay: "Relay", prefill: Engine, decode: Engine) -> None:
        """Both were silent, each perhaps because of the other: the next pair has neither, if it may be."""
        roles = relay.fleet.split if relay.fleet is not None else None
        if roles is None:
            return
        both = (prefill.id, decode.id)
        others = tuple(id for id in relay.tried if id not in both)
        sides = (roles.prefill, prefill.id), (roles.decode, decode.id)
        left_out = tuple(id for side, id in sides if side.has_other((*others, id)))
        relay.tried = (*others, *(left_out or both))

    def prefill(self) -> Prefill | None:
        """The leg that prefills, for the access log; None where there was none."""
        if self.engine is None or self.choice is None:
            return None
        return Prefill(self.engine.name, self.choice, self.prefill_ns, self.sent_ns, self.end_ns)

    def count(self, leg: str, how: str, relay: "Relay") -> None:
        """A leg is over."""
        fleet = relay.fleet.name if relay.fleet is not None else "none"
        self._service.tallies.counts["split_legs", fleet, leg, how] += 1


def dispatch(relay: "Relay", service: Service, roles: Roles) -> None:
    """Choose for a request of a fleet with roles, and send it."""
    legs = relay.legs
    if legs is None:
        legs = relay.legs = Legs(service)
    legs.go(relay, roles)
