"""The token ids that an engine tells in an event stream, taken out of it: what is left is the client's.

vLLM writes `"prompt_token_ids":null` and `"token_ids":null` where nobody asked for them, and so does this.
Where a parser of tools or of thinking makes nothing of a token yet, it writes an event with its id alone:
that goes whole.  In text that a model or a client wrote quotes are escaped: a name between two bare ones is
the member itself.
"""

import re
from typing import Final

_MEMBER: Final = re.compile(rb'("(?:prompt_)?token_ids"\s*+:\s*+)(\[[0-9,\s]*+\])')
_EXTRA: Final = re.compile(
    rb'data: \{[^\n]*?"choices":\[\{"index":\d+,"delta":\{\},"logprobs":null,"finish_reason":null,'
    rb'"token_ids":\[[0-9,]*+\]\}\][^\n]*+\n\n'
)
_ENDS: Final = (b"\n\n", b"\r\n\r\n")
_PROMPTS: Final = b'"p'
_LONGEST_BYTES: Final = 8 << 20


class Sifter:
    """One stream. `ids` is the JSON array of the prompt's ids, once it has come.

    Events are passed on whole: what has no end yet is held.
    """

    __slots__ = ("_held", "ids")

    def __init__(self) -> None:
        self.ids = b""
        self._held = b""

    def sifted(self, piece: bytes) -> bytes:
        """What of the stream can be passed on: the very same object where nothing was taken out or held."""
        whole = self._held + piece if self._held else piece
        end = max((whole.rfind(mark) + len(mark) for mark in _ENDS if mark in whole), default=0)
        if len(whole) - end > _LONGEST_BYTES:
            end = len(whole)
        self._held = whole[end:]
        return self._without_ids(whole if end == len(whole) else whole[:end])

    def rest(self) -> bytes:
        """What is held of a stream that ended within an event."""
        held, self._held = self._held, b""
        return self._without_ids(held)

    def _without_ids(self, events: bytes) -> bytes:
        if b"token_ids" not in events:
            return events
        if b'"delta":{}' in events:
            events = _EXTRA.sub(b"", events)
        return _MEMBER.sub(self._nulled, events)

    def _nulled(self, member: re.Match[bytes]) -> bytes:
        if not self.ids and member[1].startswith(_PROMPTS):
            self.ids = member[2]
        return member[1] + b"null"
