"""What a request asks, and of which fleet: worked out from its head and body, or why it cannot be."""

import routing.prompt
from gateway import decode_body, model_name
from gateway.ask import Ask
from gateway.decode_body import Decoded
from gateway.fleets.fleet import Fleet
from gateway.refused import Refused
from gateway.service import Service
from routing.types import Prompt


def read(ask: Ask, body: bytes, service: Service) -> tuple[str | None, Prompt | None, Decoded | None]:
    """The model a whole body names, its prompt where it holds one, and what it is when it came compressed.

    Raises `Refused`.
    """
    if not body or not ask.reads_body:
        return None, None, None
    packed: Decoded | None = None
    if ask.codings:
        try:
            packed = decode_body.decoded(ask.codings, body, service.limits.read_bytes)
        except decode_body.Undecodable as error:
            raise Refused(error.status, error.reason, "unreadable") from None
        body = packed.body
    if ask.is_form or (packed is not None and not packed.whole):
        found = model_name.find(body, ask.head.field(b"content-type"))
        return found.name if found is not None else None, None, packed
    try:
        prompt = routing.prompt.read(ask.path.path, body, service.prefix_key)
        if ask.session:
            prompt = routing.prompt.named_by(prompt, ask.session, service.prefix_key)
    except routing.prompt.Unreadable as error:
        raise Refused(400, str(error), "unreadable") from None
    return prompt.model, prompt, packed


def model_of(ask: Ask, start: bytes, service: Service) -> str | None:
    """The model named in the beginning of a body that is too large to be read."""
    if not ask.reads_body:
        return None
    if ask.codings:
        start = decode_body.beginning(ask.codings, start, service.limits.read_bytes)
    found = model_name.find(start, ask.head.field(b"content-type"))
    return found.name if found is not None else None


def fleet_of(model: str | None, service: Service) -> Fleet:
    """The fleet that serves a model.  Raises `Refused`."""
    fleets = service.fleets
    fleet = fleets.named(model)
    if fleet is not None:
        return fleet
    known = ", ".join(fleets.models) or "none yet"
    if model is None:
        message = f"the request names no model and there is no default fleet; there are: {known}"
        raise Refused(400, message, "unknown_model", param="model")
    message = f"the model {model[:200]!r} does not exist here; there are: {known}"
    raise Refused(404, message, "unknown_model", code="model_not_found", param="model")


def barred(ask: Ask, fleet: Fleet) -> tuple[int, ...]:
    """The engines of a fleet that an administrative path, opened for some, does not reach.

    Raises `Refused` when that is all of them.
    """
    path = ask.path.path
    found = tuple(engine.id for engine in fleet.engines if path not in engine.spec.allow_paths)
    if len(found) == len(fleet.engines):
        message = f"no engine of {fleet.name} has {path} under its allow_paths"
        raise Refused(404, message, "path", code="not_found")
    return found
