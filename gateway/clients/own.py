"""What does the gateway answer by itself?  Its models, its health, what may be asked, and what is refused.

Each answer is made once its request is whole, and told then whether the connection closes behind it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway import paths, turnstile
from gateway.ask import Ask
from gateway.clients import answers, cors, upgrade
from gateway.refused import Refused

if TYPE_CHECKING:
    from gateway.service import Service


@dataclass(slots=True)
class Answer:
    """One answer of the gateway's own, and of what request it is."""

    ask: Ask
    received_ns: int
    make: Callable[[bool], bytes]
    unread_bytes: int = 0  # as many as came of the request's body


def refused(said: Refused, ask: Ask | None, *, close: bool) -> bytes:
    """What a client is told, in the words of the API it asks; `ask` is None where no head was read."""
    return answers.refusal(
        said.status, said.kind, said.message, code=said.code, param=said.param,
        retry_after_s=said.retry_after_s, extra=said.extra, close=close,
        bodiless=ask is not None and ask.is_head, anthropic=ask is not None and ask.is_messages,
    )  # fmt: skip


def unswitched(ask: Ask, service: "Service") -> Refused | None:
    """Why the connection does not go on in the protocol that is asked for; None where it may."""
    fault = upgrade.fault(ask.head, ask.path)
    if fault is not None:
        status, message = fault
        kind = "not_implemented" if status == 501 else "invalid_request_error"
        return Refused(status, message, "upgrade", kind=kind)
    unknown = ask.unidentified(service)
    return None if unknown is None else turnstile.turned_away(unknown)


def refusal(said: Refused, ask: Ask, service: "Service") -> Callable[[bool], bytes]:
    """The answer to who is refused before anything else is asked."""
    service.tallies.counts[("refused", said.reason)] += 1
    return lambda close: refused(said, ask, close=close)


def answer(ask: Ask, service: "Service") -> Callable[[bool], bytes]:
    """The answer to what is not relayed."""
    request, asked, bodiless, fleets = ask.head, ask.path, ask.is_head, service.fleets
    if service.cors is not None and cors.is_preflight(request):
        rules = service.cors
        return lambda close: rules.preflight(request, close=close)
    if asked.kind is paths.Kind.OPTIONS:
        return lambda close: cors.options(asked.path, close=close)
    if asked.kind is paths.Kind.REFUSED:
        return refusal(Refused(404, asked.reason, "path", code="not_found"), ask, service)
    if asked.kind is paths.Kind.MODELS:
        models = [{"id": name, "object": "model", "owned_by": "shadowlane"} for name in fleets.models]
        body = json.dumps({"object": "list", "data": models}).encode()
        return lambda close: answers.whole(200, body, close=close, bodiless=bodiless)
    is_up = any(fleet.is_up for fleet in fleets.fleets) and not service.draining
    status, extra = (200, []) if is_up else (503, ["Retry-After: 2"])
    said = json.dumps({"status": "ok" if is_up else "unavailable"}).encode()
    return lambda close: answers.whole(status, said, extra, close=close, bodiless=bodiless)
