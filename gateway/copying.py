"""What of a request is handed to the lane once production has it: as its client sent it, its body plain."""

from typing import TYPE_CHECKING

from gateway import decode_body
from gateway.copied import Copy
from gateway.copied import asked as read
from gateway.lane_link import LaneLink

if TYPE_CHECKING:
    from gateway.relay import Relay


def offered(relay: "Relay", lane: LaneLink, sent_ns: int) -> Copy | None:
    """Offer a request that was sent to an engine; None where it is no prompt, or nobody samples it."""
    ask, prompt, body, fleet = relay.ask, relay.prompt, relay.body, relay.fleet
    if prompt is None or body is None or fleet is None or ask.is_copy:
        return None
    if relay.legs is not None and not relay.legs.is_first:
        return relay.copy  # it was offered with the first leg, as its client sent it
    if relay.packed is None:
        asked = ask.copied
        if asked is None:
            asked = ask.copied = read(ask.path.path, ask.head.target.decode("latin-1"), ask.head.headers)
    else:
        plain = decode_body.plain(ask.head).headers
        asked, body = read(ask.path.path, ask.head.target.decode("latin-1"), plain), relay.packed.body
    return lane.copied(
        fleet.spec.model, relay.id.decode("latin-1"), asked, body, prompt, relay.received_ns, sent_ns
    )
