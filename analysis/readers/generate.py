"""How does /generate answer?  SGLang sends the text so far with each event, TGI one token an event."""

from dataclasses import dataclass
from typing import Any

import msgspec

from analysis.readers._choice import ChoiceDraft
from analysis.readers._draft import Draft
from analysis.readers._openai import complaint, reason, words
from analysis.readers._reader import JsonReader, Reader
from analysis.transcript import TokenLogprob

PATHS = ("/generate", "/generate_stream")


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


class _Meta(msgspec.Struct):
    finish_reason: Any = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    output_token_logprobs: msgspec.Raw = msgspec.Raw(b"null")


class _Details(msgspec.Struct):
    finish_reason: str | None = None
    generated_tokens: int | None = None


class _Token(msgspec.Struct):
    id: int | None = None
    text: str | None = None
    special: bool | None = None
    logprob: float | None = None


class _Chunk(msgspec.Struct):
    index: int | None = None
    text: str | None = None
    output_ids: list[int] | None = None
    meta_info: _Meta | None = None
    token: _Token | None = None
    generated_text: str | None = None
    details: _Details | None = None
    error: Any = None


_chunks = msgspec.json.Decoder(_Chunk | list[_Chunk])
_logprobs = msgspec.json.Decoder(list[tuple[float, int, str | None]])


class Generate:
    """Keeps how much of each text was seen, since SGLang repeats it."""

    def __init__(self) -> None:
        self._seen: dict[int, str] = {}

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
            choice = draft.choice(chunk.index if chunk.index is not None else number)
            _tokens(chunk, choice)
            said = self._said(chunk, choice.index)
            if said:
                choice.texts.append(said)
                if live:
                    draft.token(choice, at_ns, visible=True)
            _end(chunk, choice, at_ns, draft)

    def _said(self, chunk: _Chunk, index: int) -> str:
        """The text that is new."""
        if chunk.token is not None:
            return "" if chunk.token.special else words(chunk.token.text)
        if chunk.text is None:
            return words(chunk.generated_text)
        seen = self._seen.get(index, "")
        # An engine told to stream increments sends them alone: what does not continue the text is new.
        repeats = chunk.text.startswith(seen) and not _increments(chunk)
        said = chunk.text[len(seen) :] if repeats else chunk.text
        self._seen[index] = seen + said
        return said


def _increments(chunk: _Chunk) -> bool:
    """Whether SGLang says that these are not all tokens so far."""
    if chunk.meta_info is None or chunk.meta_info.completion_tokens is None or chunk.output_ids is None:
        return False
    return len(chunk.output_ids) < chunk.meta_info.completion_tokens


def _tokens(chunk: _Chunk, choice: ChoiceDraft) -> None:
    if (token := chunk.token) is not None:
        name, logprob = words(token.text), token.logprob
        choice.told(
            None if token.id is None else [token.id],
            None if logprob is None else [TokenLogprob(name, logprob)],
        )
        return
    ids, seen = chunk.output_ids or [], len(choice.ids)
    new = ids[seen:] if ids[:seen] == choice.ids and not _increments(chunk) else ids
    choice.told(new, None)
    if new and chunk.meta_info is not None and len(chunk.meta_info.output_token_logprobs) > len(b"null"):
        try:
            found = _logprobs.decode(chunk.meta_info.output_token_logprobs)
        except msgspec.MsgspecError:
            return
        choice.told(None, [TokenLogprob(str(name), value) for value, name, _ in found[-len(new) :]])


def _end(chunk: _Chunk, choice: ChoiceDraft, at_ns: int, draft: Draft) -> None:
    meta, details = chunk.meta_info, chunk.details
    if meta is not None:
        if (why := reason(meta.finish_reason)) is not None:
            draft.finish(choice, why)
        draft.usage(at_ns, meta.prompt_tokens, meta.completion_tokens, meta.cached_tokens, of=[choice.index])
    if details is not None:
        if details.finish_reason:
            draft.finish(choice, details.finish_reason)
        if details.generated_tokens is not None:
            draft.usage(at_ns, None, details.generated_tokens, None, of=[choice.index])
    elif chunk.generated_text is not None and choice.finish_reason is None:
        draft.finish(choice, "stop")


def build(_params: Params) -> Reader:
    """A reader for one answer."""
    return JsonReader(Generate())
