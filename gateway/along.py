"""A request along with which its prompt's token ids are asked for, where the operator wants that.

`return_token_ids` is put at the end of the body; what the engine then says more than it would have said is
taken out of its answer (`gateway.bridge.sift`).  Only of event streams: a document's length is told first.
"""

from typing import TYPE_CHECKING, Final

from gateway.attempt import Attempt
from gateway.bridge.sift import Sifter
from gateway.decode_body import Decoded
from gateway.fleets.fleet import Engine
from gateway.service import Service
from routing.types import Choice
from wire.exchange import Ending
from wire.response import ResponseHead

if TYPE_CHECKING:
    from gateway.relay import Relay

_ASKED: Final = b',"return_token_ids":true'
# Of these names one means that the client asks itself, the other that the answer would be another one.
_NOT_BESIDE: Final = (b"return_token_ids", b'"echo"')


class Along(Attempt):
    """An attempt whose answer tells token ids that the client did not ask for."""

    __slots__ = ("_sifter", "_told")

    def __init__(self, relay: "Relay", service: Service, engine: Engine, choice: Choice) -> None:
        super().__init__(relay, service, engine, choice)
        self._sifter: Sifter | None = None
        self._told = False

    def head_came(self, response: ResponseHead, at_ns: int, *, more: bool) -> None:
        if response.status == 200 and response.is_events:
            # With a length that was told first it cannot become shorter.
            if response.field(b"content-encoding") or response.content_length is not None:
                self._lessons_sealed()
            else:
                self._sifter = Sifter()
        super().head_came(response, at_ns, more=more)

    def body_came(self, body: bytes, at_ns: int, framed: bytes | None) -> None:
        sifter = self._sifter
        if sifter is not None:
            left = sifter.sifted(body)
            if sifter.ids and not self._told:
                self._told = True
                self._lessons_told(sifter.ids)
            if left is not body:
                if not left:
                    self.last_ns = at_ns
                    return
                body, framed = left, None
        super().body_came(body, at_ns, framed)

    def ended(self, ending: Ending, at_ns: int) -> None:
        sifter, self._sifter = self._sifter, None
        if sifter is not None and not self.replaced:
            rest = sifter.rest()
            if rest:
                super().body_came(rest, at_ns, None)
        super().ended(ending, at_ns)

    def _lessons_told(self, ids: bytes) -> None:
        fleet = self._relay.fleet
        if fleet is not None and fleet.lessons is not None:
            fleet.lessons.told_along(self._relay, ids)

    def _lessons_sealed(self) -> None:
        fleet = self._relay.fleet
        if fleet is not None and fleet.lessons is not None:
            fleet.lessons.cannot_sift(self.engine.id)


def prepared(
    relay: "Relay", service: Service, engine: Engine, choice: Choice
) -> tuple[bytes, Decoded | None, Attempt]:
    """The body for an engine, and who receives its answer, of a request whose body is all there."""
    legs, body, fleet = relay.legs, relay.body, relay.fleet
    if legs is not None:
        packed_body, packed = legs.body(relay)
        return packed_body, packed, legs.attempt(relay, engine, choice)
    assert body is not None
    if fleet is not None and fleet.lessons is not None and fleet.lessons.asks_production:
        asked = asking(body)
        if asked and fleet.lessons.wants_along(relay, engine):
            return asked, None, Along(relay, service, engine, choice)
    return body, relay.packed, Attempt(relay, service, engine, choice)


def asking(body: bytes) -> bytes:
    """A JSON object with the question; nothing where it cannot be put, or would change too much."""
    end = body.rstrip()
    if not end.endswith(b"}") or any(name in body for name in _NOT_BESIDE):
        return b""
    return end[:-1] + _ASKED + body[len(end) - 1 :]
