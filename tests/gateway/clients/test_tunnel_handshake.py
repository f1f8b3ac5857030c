"""What an engine's answer to a handshake may be, in any pieces, and which subprotocols are passed on."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.clients import upgrade
from tests.gateway.clients.test_tunnel import AGREED
from wire.handshake import Handshake
from wire.http1 import RequestHead
from wire.response import MalformedAnswer


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_no_bytes_crash_the_handshake_and_cuts_do_not_matter(data: bytes, cuts: list[int]) -> None:
    for start in (b"", b"HTTP/1.1 101 S\r\n", AGREED[:-2], b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 "):
        assert shaken(start + data, cuts) == shaken(start + data, range(1, len(start + data)))


def shaken(data: bytes, cuts: Any) -> Any:
    handshake = Handshake()
    places = [0, *sorted(cut for cut in cuts if 0 < cut < len(data)), len(data)]
    try:
        for at, (start, end) in enumerate(pairwise(places)):
            handshake.feed(data[start:end])
            if handshake.switched is not None:
                return handshake.switched, handshake.rest + data[places[at + 1] :]
            if handshake.complete:
                return handshake.refused, handshake.body
    except MalformedAnswer:
        return "malformed"
    handshake.eof()
    return handshake.refused, handshake.body, handshake.complete


def test_a_key_among_subprotocols_is_taken_out_and_only_that() -> None:
    offers = [
        (b"Sec-WebSocket-Protocol", b"openai-insecure-api-key.a"),
        (b"sec-websocket-protocol", b"b , c"),
    ]
    names = [name.lower() for name, _ in offers]
    head = RequestHead(b"GET", b"/", offers, names, "1.1", True, None, False, True)
    assert upgrade.without_key(head).headers == [(b"sec-websocket-protocol", b"b, c")]
