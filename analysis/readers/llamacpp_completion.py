"""How does llama.cpp's native /completion answer?"""

from dataclasses import dataclass
from typing import Any

import msgspec

from analysis.readers._draft import Draft
from analysis.readers._openai import Timings, complaint, words
from analysis.readers._reader import JsonReader, Reader

PATHS = ("/completion", "/completions")


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


class _Chunk(msgspec.Struct):
    index: int | None = None
    content: Any = None
    tokens: list[int] | None = None
    stop: bool | None = None
    stop_type: str | None = None
    tokens_predicted: int | None = None
    tokens_evaluated: int | None = None
    timings: Timings | None = None
    error: Any = None


_chunks = msgspec.json.Decoder(_Chunk | list[_Chunk])


class LlamacppCompletion:
    """One object a token, the last with `stop`; several prompts in one request give a list."""

    def event(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        self._take(payload, at_ns, draft, live=True)

    def body(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        self._take(payload, at_ns, draft, live=False)

    def _take(self, payload: bytes, at_ns: int, draft: Draft, *, live: bool) -> None:
        read = _chunks.decode(payload)
        chunks = read if isinstance(read, list) else [read]
        for number, chunk in enumerate(chunks):
            if chunk.error is not None:
                draft.fail(complaint(chunk.error))
                continue
            choice = draft.choice(chunk.index if chunk.index is not None else number)
            said = words(chunk.content)
            # While the prompt is computed there is an event for each part of it, with a 0 for a token.
            choice.told(chunk.tokens if chunk.tokens_predicted != 0 else None, None)
            if said:
                choice.texts.append(said)
                if live:
                    draft.token(choice, at_ns, visible=True)
            if chunk.stop:
                draft.finish(choice, chunk.stop_type or "stop")
            if chunk.tokens_predicted is not None:
                cached = chunk.timings.cache_n if chunk.timings is not None else None
                prompt = chunk.tokens_evaluated if len(chunks) == 1 else None
                draft.usage(at_ns, prompt, chunk.tokens_predicted, cached, of=[choice.index])


def build(_params: Params) -> Reader:
    """A reader for one answer."""
    return JsonReader(LlamacppCompletion())
