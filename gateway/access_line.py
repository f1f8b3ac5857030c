"""A request's line in the access log, out of what is known where it ended."""

from typing import TYPE_CHECKING, Final

from gateway.access_log import AccessLog
from gateway.ask import Ask
from gateway.fleets.fleet import Fleet
from gateway.outcome import Outcome
from routing.types import Choice

if TYPE_CHECKING:
    from gateway.attempt import Attempt
    from gateway.clients.tunnel import Tunnel
    from gateway.relay import Relay

_NOT_LET_IN: Final = frozenset({401, 403, 429, 503})


def write(access: AccessLog, relay: "Relay", attempt: "Attempt | None", what: Outcome, at_ns: int) -> None:
    """Make the line; `attempt` is the last one, None where no engine had the request at the end."""
    fleet, choice = relay.fleet, None if attempt is None else attempt.choice
    model = relay.prompt.model if relay.prompt is not None else None
    if model is not None and (fleet is None or model not in fleet.models):
        model = "other"
    status = relay.status
    if not status and attempt is not None and relay.reply.head_sent:
        status = attempt.status
    access.finished(
        what,
        request_id=relay.id.decode("latin-1"),
        method=relay.head.method,
        path=relay.ask.path.path,
        status=status,
        received_ns=relay.received_ns,
        body_ns=relay.body_ns,
        chosen_ns=attempt.chosen_ns if attempt is not None else 0,
        sent_ns=attempt.exchange.written_ns if attempt is not None else 0,
        head_ns=(attempt.head_ns or 0) if attempt is not None else 0,
        token_ns=attempt.token_ns if attempt is not None else 0,
        last_ns=attempt.last_ns if attempt is not None and attempt.head_ns else 0,
        end_ns=at_ns,
        bytes_in=relay.body_bytes,
        bytes_out=attempt.body_bytes if attempt is not None else 0,
        key=relay.ask.key.name if relay.ask.key is not None else None,
        fleet=fleet.name if fleet is not None else None,
        engine=attempt.engine.name if attempt is not None else None,
        model=model,
        retries=relay.retries,
        choice=choice,
        usage=attempt.usage if attempt is not None else None,
        prefill=None if relay.legs is None else relay.legs.prefill(),
        costs=None if choice is None or fleet is None else _costs(choice, fleet),
    )


def _costs(choice: Choice, fleet: Fleet) -> dict[str, float] | None:
    """What each engine would have cost, dearer ones too."""
    costs = choice.costs
    if not costs:
        return None
    return {engine.name: round(costs[engine.id], 6) for engine in fleet.engines if engine.id in costs}


def own(
    access: AccessLog,
    ask: Ask | None,
    id: bytes,
    status: int,
    received_ns: int,
    end_ns: int,
    *,
    bytes_in: int,
) -> None:
    """Write what is wanted of a request the gateway answered itself; `ask` is None where no head came."""
    what = Outcome.COMPLETE if status < 400 else Outcome.CLIENT_ERROR
    if status in _NOT_LET_IN:
        what = Outcome.LIMITED
    if access.wants(what, end_ns / 1e9):
        access.finished(
            what,
            request_id=id.decode("latin-1"),
            method=b"" if ask is None else ask.head.method,
            path="" if ask is None else ask.path.path,
            status=status,
            received_ns=received_ns,
            end_ns=end_ns,
            bytes_in=bytes_in,
            key=None if ask is None or ask.key is None else ask.key.name,
        )


def tunnel(access: AccessLog, tunnel: "Tunnel", what: Outcome, end_ns: int) -> None:
    """Write what is wanted of a WebSocket that is over, or did not come about."""
    if not access.wants(what, end_ns / 1e9):
        return
    fleet, choice, ask = tunnel.fleet, tunnel.choice, tunnel.ask
    access.finished(
        what,
        request_id=tunnel.id.decode("latin-1"),
        method=ask.head.method,
        path=ask.path.path,
        status=tunnel.status,
        received_ns=tunnel.received_ns,
        body_ns=tunnel.received_ns,
        chosen_ns=tunnel.chosen_ns,
        sent_ns=tunnel.sent_ns,
        head_ns=tunnel.head_ns,
        end_ns=end_ns,
        bytes_in=tunnel.bytes_in,
        bytes_out=tunnel.bytes_out,
        key=ask.key.name if ask.key is not None else None,
        fleet=fleet.name if fleet is not None else None,
        engine=tunnel.engine.name if tunnel.engine is not None else None,
        model=fleet.spec.model if fleet is not None else None,
        retries=max(0, tunnel.retries),
        choice=choice,
    )
