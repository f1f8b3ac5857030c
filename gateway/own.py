"""What does the gateway answer by itself?  Its models, its health, what may be asked, and what is refused.

Each answer is made once its request is whole, and told then whether the connection closes behind it.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway import answers, cors, paths, turnstile
from gateway.admission.refusal import Refused
from wire.http1 import RequestHead

if TYPE_CHECKING:
    from gateway.service import Service

Answer = Callable[[bool], bytes]


def unidentified(request: RequestHead, unknown: Refused, service: "Service") -> Answer:
    """The answer to a client that is not known."""
    service.tallies.counts[("refused", unknown.reason)] += 1
    return lambda close: answers.refusal(
        unknown.status, unknown.type, unknown.message, code=unknown.reason, extra=turnstile.lines(unknown),
        close=close, bodiless=request.method == b"HEAD",
    )  # fmt: skip


def answer(request: RequestHead, asked: paths.Asked, service: "Service") -> Answer:
    """The answer to what is not relayed."""
    bodiless, fleets = request.method == b"HEAD", service.fleets
    if service.cors is not None and cors.is_preflight(request):
        rules = service.cors
        return lambda close: rules.preflight(request, close=close)
    if asked.kind is paths.Kind.OPTIONS:
        return lambda close: cors.options(asked.path, close=close)
    if asked.kind is paths.Kind.REFUSED:
        service.tallies.counts[("refused", "path")] += 1
        return lambda close: answers.refusal(
            404, "invalid_request_error", asked.reason, code="not_found", close=close, bodiless=bodiless
        )
    if asked.kind is paths.Kind.MODELS:
        models = [{"id": name, "object": "model", "owned_by": "shadowlane"} for name in fleets.models]
        body = json.dumps({"object": "list", "data": models}).encode()
        return lambda close: answers.whole(200, body, close=close, bodiless=bodiless)
    is_up = any(fleet.is_up for fleet in fleets.fleets) and not service.draining
    status, extra = (200, []) if is_up else (503, ["Retry-After: 2"])
    said = json.dumps({"status": "ok" if is_up else "unavailable"}).encode()
    return lambda close: answers.whole(status, said, extra, close=close, bodiless=bodiless)
