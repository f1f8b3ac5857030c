"""How does /inference/v1/generate answer?  vLLM's scale-out endpoint: token ids out, and no text.

The ids stand for the text: two answers are the same where their ids are.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from analysis.readers._draft import Draft
from analysis.readers._openai import Timings, Usage, complaint, reason, take_usage
from analysis.readers._reader import JsonReader, Reader

PATHS = ("/inference/v1/generate",)


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


class _Choice(msgspec.Struct):
    index: int | None = None
    finish_reason: Any = None
    token_ids: list[int] | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Usage | None = None
    timings: Timings | None = None
    error: Any = None


_chunks = msgspec.json.Decoder(_Chunk | None)


class TokenIds:
    """Chunks of token ids, or all of them in one piece."""

    def event(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        self._take(payload, at_ns, draft, live=True)

    def body(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        self._take(payload, at_ns, draft, live=False)

    def _take(self, payload: bytes, at_ns: int, draft: Draft, *, live: bool) -> None:
        chunk = _chunks.decode(payload)
        if chunk is None:
            return
        if chunk.error is not None:
            draft.fail(complaint(chunk.error))
        begun = draft.events
        for number, part in enumerate(chunk.choices or ()):
            choice = draft.choice(part.index if part.index is not None else number)
            if part.token_ids:
                choice.texts.append("".join(f"{token} " for token in part.token_ids))
                if live:
                    draft.token(at_ns, visible=True)
            choice.finish_reason = reason(part.finish_reason) or choice.finish_reason
        take_usage(draft, at_ns, begun, chunk.usage, chunk.timings)


def build(_params: Params) -> Reader:
    """A reader for one answer."""
    return JsonReader(TokenIds())
