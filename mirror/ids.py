"""Which token ids did a copy's prompt have, as the control says?  They teach the gateway's routing.

Asked of copies only (`rewrite.TOKEN_IDS`): production's requests and answers are left as they are.
"""

import re
from array import array
from collections.abc import Sequence
from typing import Any

import msgpack
import msgspec

from mirror.frames import Copy
from mirror.spec import CONTROL

SOCKET = "bridge.sock"
LINE_BYTES = 8 << 20
# In text that a model or a client wrote the quotes are escaped: this is the member itself.
_IDS = re.compile(rb'"prompt_token_ids"\s*:\s*(\[[\d,\s]+\])')
_MOST_BYTES = 2 << 20
_numbers = msgspec.json.Decoder(list[int])


def told_by(copy: Copy, answer: dict[str, Any]) -> bytes | None:
    """What to tell of a copy that the control has answered; None where it says no ids, or another arm did."""
    if answer["arm"] != CONTROL or answer["twin"] or answer["status"] != 200:
        return None
    ids = ids_in(answer["reads"], is_stream=answer["content_type"].startswith("text/event-stream"))
    if ids is None:
        return None
    fields = {"id": copy.id, "path": copy.path.partition("?")[0], "body": copy.body, "ids": ids}
    packed: bytes = msgpack.packb(["ids", fields])
    return packed


def ids_in(reads: Sequence[tuple[int, bytes]], *, is_stream: bool) -> bytes | None:
    """The prompt's ids in an answer's pieces, as native u32; a stream says them in its first event."""
    whole = b""
    pieces = [piece for _at_ns, piece in reads]
    if is_stream:
        for piece in pieces:
            whole += piece
            if b"\n\n" in whole or b"\r\n\r\n" in whole or len(whole) > _MOST_BYTES:
                break
    elif sum(map(len, pieces)) <= _MOST_BYTES:
        whole = b"".join(pieces)
    found = _IDS.search(whole)
    if found is None:
        return None
    try:
        return array("I", _numbers.decode(found[1])).tobytes()
    except (msgspec.DecodeError, OverflowError):
        return None
