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
        begun = draft.events
        for number, chunk in enumerate(chunks):
            if chunk.error is not None:
                draft.fail(complaint(chunk.error))
                continue
            choice = draft.choice(chunk.index if chunk.index is not None else number)
            said = words(chunk.content)
            if said:
                choice.texts.append(said)
                if live:
                    draft.token(at_ns, visible=True)
            if chunk.stop:
                choice.finish_reason = chunk.stop_type or "stop"
        if len(chunks) == 1 and chunks[0].tokens_predicted is not None:
            timings = chunks[0].timings
            cached = timings.cache_n if timings is not None else None
            draft.usage(at_ns, chunks[0].tokens_evaluated, chunks[0].tokens_predicted, cached, begun=begun)


def build(_params: Params) -> Reader:
    """A reader for one answer."""
    return JsonReader(LlamacppCompletion())
