"""A relayed request's line in the access log, out of what its relay and its last attempt know."""

from typing import TYPE_CHECKING

from gateway.access_log import AccessLog
from gateway.outcome import Outcome

if TYPE_CHECKING:
    from gateway.attempt import Attempt
    from gateway.relay import Relay


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
    )
