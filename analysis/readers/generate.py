"""How does /generate answer?  SGLang sends the text so far with each event, TGI one token an event."""

from dataclasses import dataclass
from typing import Any

import msgspec

from analysis.readers._draft import Draft
from analysis.readers._openai import complaint, reason, words
from analysis.readers._reader import JsonReader, Reader

PATHS = ("/generate", "/generate_stream")


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


class _Meta(msgspec.Struct):
    finish_reason: Any = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


class _Details(msgspec.Struct):
    finish_reason: str | None = None
    generated_tokens: int | None = None


class _Token(msgspec.Struct):
    text: str | None = None
    special: bool | None = None


class _Chunk(msgspec.Struct):
    index: int | None = None
    text: str | None = None
    meta_info: _Meta | None = None
    token: _Token | None = None
    generated_text: str | None = None
    details: _Details | None = None
    error: Any = None


_chunks = msgspec.json.Decoder(_Chunk | list[_Chunk])


class Generate:
    """Keeps how much of each text was seen, since SGLang repeats it."""

    def __init__(self) -> None:
        self._seen: dict[int, str] = {}
        self._counts: dict[int, int] = {}

    def event(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        self._take(payload, at_ns, draft, live=True)

    def body(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        self._take(payload, at_ns, draft, live=False)

    def _take(self, payload: bytes, at_ns: int, draft: Draft, *, live: bool) -> None:
        read = _chunks.decode(payload)
        for number, chunk in enumerate(read if isinstance(read, list) else [read]):
            if chunk.error is not None:
                draft.fail(complaint(chunk.error))
                continue
            index = chunk.index if chunk.index is not None else number
            begun = draft.events
            self._text(chunk, index, at_ns, draft, live=live)
            self._end(chunk, index, at_ns, draft, begun)

    def _text(self, chunk: _Chunk, index: int, at_ns: int, draft: Draft, *, live: bool) -> None:
        choice = draft.choice(index)
        if chunk.token is not None:
            said = "" if chunk.token.special else words(chunk.token.text)
        elif chunk.text is not None:
            seen = self._seen.get(index, "")
            # An engine told to stream increments sends them alone: what does not continue the text is new.
            said = chunk.text[len(seen) :] if chunk.text.startswith(seen) else chunk.text
            self._seen[index] = seen + said
        else:
            said = words(chunk.generated_text)
        if said:
            choice.texts.append(said)
            if live:
                draft.token(at_ns, visible=True)

    def _end(self, chunk: _Chunk, index: int, at_ns: int, draft: Draft, begun: int) -> None:
        choice = draft.choice(index)
        meta, details = chunk.meta_info, chunk.details
        if meta is not None:
            choice.finish_reason = reason(meta.finish_reason) or choice.finish_reason
            if meta.completion_tokens is not None:
                self._counts[index] = meta.completion_tokens
                total = sum(self._counts.values())
                draft.usage(at_ns, meta.prompt_tokens, total, meta.cached_tokens, begun=begun)
        if details is not None:
            choice.finish_reason = details.finish_reason or choice.finish_reason
            if details.generated_tokens is not None:
                draft.uncounted()
                draft.usage(at_ns, None, details.generated_tokens, None, begun=begun)
        elif chunk.generated_text is not None:
            choice.finish_reason = choice.finish_reason or "stop"


def build(_params: Params) -> Reader:
    """A reader for one answer."""
    return JsonReader(Generate())
