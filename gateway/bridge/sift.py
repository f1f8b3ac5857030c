"""The token ids that an engine tells in an event stream, taken out of it: what is left is the client's.

vLLM writes `"prompt_token_ids":null` and `"token_ids":null` where nobody asked for them, and so does this.
In text that a model or a client wrote quotes are escaped: a name between two bare ones is the member itself.
"""

import re
from typing import Final

_MEMBER: Final = re.compile(rb'("(?:prompt_)?token_ids"\s*+:\s*+)(\[[0-9,\s]*+\])')
_OPEN: Final = re.compile(
    rb'"(?:[a-z_]{0,16}|(?:prompt_)?token_ids"\s*+(?::\s*+(?:\[[0-9,\s]*+)?)?)\Z'
)  # a member, or what may become one
_PROMPTS: Final = b'"p'
_LONGEST_BYTES: Final = 8 << 20


class Sifter:
    """One stream. `ids` is the JSON array of the prompt's ids, once it has come."""

    __slots__ = ("_held", "ids")

    def __init__(self) -> None:
        self.ids = b""
        self._held = b""

    def sifted(self, piece: bytes) -> bytes:
        """What of the stream can be passed on: the very same object where nothing was taken out or held."""
        whole = self._held + piece if self._held else piece
        if b"token_ids" in whole:
            whole = _MEMBER.sub(self._nulled, whole)
        cut = _OPEN.search(whole, max(0, whole.rfind(b"\n")))
        if cut is None or len(whole) > _LONGEST_BYTES:
            self._held = b""
            return whole
        self._held = whole[cut.start() :]
        return whole[: cut.start()]

    def rest(self) -> bytes:
        """What is held of a stream that ended within a member."""
        held, self._held = self._held, b""
        return held

    def _nulled(self, member: re.Match[bytes]) -> bytes:
        if not self.ids and member[1].startswith(_PROMPTS):
            self.ids = member[2]
        return member[1] + b"null"
