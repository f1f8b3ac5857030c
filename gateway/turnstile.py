"""A request's way through admission: let in, waiting or refused; its place at an engine; what it cost.

Where nothing is limited none of this is called.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gateway import question
from gateway import refused as own
from gateway.admission.refusal import Refused
from gateway.admission.shorten import shortened
from gateway.admission.ticket import Ticket, Usage
from gateway.failure import unavailable
from gateway.fleets.fleet import Engine, Fleets
from gateway.outcome import Outcome
from gateway.usage import Usage as Told
from routing.types import Choice, Prompt
from wire.clock import monotonic_ns

if TYPE_CHECKING:
    from gateway.fleets.fleet import Fleet
    from gateway.relay import Relay
    from gateway.service import Service

NO_PROMPT: Final = Prompt(model=None, chain=(), ends=(), root=0, turns=0, stream=False, max_tokens=None)
_NO_TOKENS: Final = Usage(0, 0, 0)
# Refused for what it was: it counts as a request, and no engine has read it.
_FAULTY: Final = frozenset({Outcome.CLIENT_ERROR, Outcome.TOO_LARGE})
_WHOLE: Final = frozenset({Outcome.COMPLETE, Outcome.TRUNCATED})
# Nothing of an answer came, whatever was passed on.
_FAILED: Final = frozenset({Outcome.ENGINE_ERROR, Outcome.NO_ENGINE, Outcome.LIMITED})


def enter(relay: "Relay", service: "Service") -> None:
    """Ask for a request whose fleet is known: it is sent now, or in its turn, or refused.

    One whose body goes by unread is not held, and so cannot wait.
    """
    admission, ask, fleet, body = service.admission, relay.ask, relay.fleet, relay.body
    assert admission is not None and fleet is not None
    if ask.generation != service.generation:  # the keys are others than when its head came
        ask = relay.ask = ask.again(service)
    if ask.key is None:
        unknown = ask.unidentified(service)
        if unknown is None:
            relay.dispatch()
        else:
            relay.refuse(turned_away(unknown))
        return
    prompt = relay.prompt

    def turn(ticket: Ticket, refused: Refused | None) -> None:
        if relay.is_closed:
            ticket.leave(monotonic_ns())
        elif refused is not None:
            relay.ticket = None
            relay.refuse(turned_away(refused))
        else:
            _send(relay, service, ticket)

    got = admission.ask(
        ask.key, fleet.spec.model,
        prompt_bytes=prompt.ends[-1] if prompt is not None and prompt.ends else 0,
        body_bytes=len(body) if body is not None else 0,
        priority=ask.priority, at_ns=monotonic_ns(), on_turn=turn,
        may_wait=body is not None, may_move=not ask.is_opened,
    )  # fmt: skip
    if isinstance(got, Refused):
        relay.refuse(turned_away(got))
        return
    relay.ticket = got
    if not got.waits:
        _send(relay, service, got)


def _send(relay: "Relay", service: "Service", ticket: Ticket) -> None:
    """Its turn has come: send it, changed as its fleet's want of room asks."""
    assert relay.fleet is not None
    if ticket.fleet != relay.fleet.spec.model:
        relay.moved(named(service.fleets, ticket.fleet))
        relay.reply.degraded = line(ticket)
    elif ticket.shorten_to is not None and _shorten(relay, ticket.shorten_to):
        relay.reply.degraded = line(ticket)
    relay.dispatch()


def line(ticket: Ticket) -> bytes:
    """The header line that tells what was done for want of room."""
    return f"x-shadowlane-degraded: {ticket.degraded}\r\n".encode()


def _shorten(relay: "Relay", most_tokens: int) -> bool:
    """Have it ask for less output; False where it does not, or cannot be made to."""
    packed, path = relay.packed, relay.ask.path.path
    if packed is not None:
        less = shortened(path, packed.body, most_tokens) if packed.whole else None
        if less is None or less is packed.body:
            return False
        relay.packed = replace(packed, body=less, is_changed=True)
        return True
    assert relay.body is not None
    less = shortened(path, relay.body, most_tokens)
    if less is None or less is relay.body:
        return False
    relay.body = less
    return True


def named(fleets: Fleets, model: str | None) -> "Fleet":
    """The fleet of a model that admission knows."""
    return next(fleet for fleet in fleets.fleets if fleet.spec.model == model)


def choose(
    ticket: Ticket | None,
    fleets: Fleets,
    fleet: "Fleet",
    prompt: Prompt,
    at_s: float,
    tried: Sequence[int],
    left_out: bool = False,
) -> tuple[Engine, Choice] | None:
    """An engine with room, its load charged and a place there taken; None when there is none."""
    if ticket is None:
        return fleets.choose(fleet, prompt, at_s, tried, left_out)
    without = (*tried, *ticket.full())
    while (chosen := fleets.choose(fleet, prompt, at_s, without, left_out)) is not None:
        engine, _ = chosen
        if ticket.sit(engine.id):
            return chosen
        give_back(fleets, chosen, prompt)  # another worker was first
        without = (*without, engine.id)
    return None


def give_back(fleets: Fleets, chosen: tuple[Engine, Choice], prompt: Prompt) -> None:
    """An engine that was chosen, and is not asked after all."""
    engine, choice = chosen
    fleets.released(engine, prompt, choice.uncached_bytes, answered=False)


def choose_again(relay: "Relay", fleets: Fleets, fleet: "Fleet", at_s: float) -> tuple[Engine, Choice] | None:
    """Where nobody was left to choose; None: nor is there anybody now, and the client was told."""
    chosen = None
    if relay.retries:
        prompt = relay.prompt or NO_PROMPT
        chosen = choose(relay.ticket, fleets, fleet, prompt, at_s, relay.tried, left_out=True)
        if chosen is None:
            # Who was left to be tried has gone meanwhile: better one that was tried than nobody.
            relay.tried = question.barred(relay.ask, fleet) if relay.ask.is_opened else ()
            chosen = choose(relay.ticket, fleets, fleet, prompt, at_s, relay.tried)
    if chosen is None:
        assert relay.fleet is not None
        relay.refuse(unavailable(relay.fleet))
    return chosen


def ended(ticket: Ticket, what: Outcome, *, answered: bool, told: Told | None) -> None:
    """Close a ticket by how its request ended.

    `answered`: a token, or a part of a body, came from an engine.  `told` is what the engine said of tokens.
    """
    at_ns = monotonic_ns()
    if what is Outcome.CLIENT_GONE:
        ticket.leave(at_ns)
    elif what in _FAULTY:
        ticket.done(_NO_TOKENS, at_ns)
    elif what in _WHOLE or (answered and what not in _FAILED):
        ticket.done(_usage(told), at_ns)
    else:
        ticket.failed(at_ns)


def _usage(told: Told | None) -> Usage | None:
    """Without the prompt's tokens an answer's counts say nothing of what was reserved."""
    if told is None or told.prompt_tokens is None:
        return None
    return Usage(told.prompt_tokens, told.cached_tokens or 0, told.completion_tokens or 0)


def turned_away(why: Refused) -> own.Refused:
    """What admission refuses, as a client is told it."""
    return own.Refused(
        why.status, why.message, why.reason, kind=why.type, what=Outcome.LIMITED, code=why.reason,
        retry_after_s=why.retry_after_s, extra=lines(why),
    )  # fmt: skip


def lines(refused: Refused) -> list[str]:
    """Header lines of a refusal, besides Retry-After."""
    if refused.status == 401:
        return ["WWW-Authenticate: Bearer"]
    return [] if refused.degraded is None else [f"x-shadowlane-degraded: {refused.degraded}"]
