"""The shapes that OpenAI-like answers share: chunks of choices, usage, errors, tool calls, logprobs."""

from collections.abc import Callable
from typing import Any

import msgspec

from analysis.readers._choice import ChoiceDraft
from analysis.readers._draft import Draft
from analysis.readers._logprobs import logprobs_of


class Details(msgspec.Struct):
    """Of the prompt's tokens, those read from a cache."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    """Token counts, under any of the names in use."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: Details | None = None


class Timings(msgspec.Struct):
    """llama.cpp's own counts, of one choice, which come even where no usage was asked for."""

    cache_n: int | None = None
    prompt_n: int | None = None
    predicted_n: int | None = None


class Function(msgspec.Struct):
    """A called function, or a fragment of it."""

    name: str | None = None
    arguments: Any = None


class Tool(msgspec.Struct):
    """A tool call, or a fragment of it."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Message(msgspec.Struct):
    """A chat message, or what is new of it."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: list[Tool] | None = None


class Part(msgspec.Struct):
    """One choice in a chunk, whichever of the protocols."""

    index: int | None = None
    delta: Message | None = None
    message: Message | None = None
    text: Any = None
    finish_reason: Any = None
    token_ids: list[int] | None = None
    logprobs: msgspec.Raw = msgspec.Raw(b"null")


class Chunk(msgspec.Struct):
    """One event of a stream, or an answer in one piece."""

    choices: list[Part] | None = None
    usage: Usage | None = None
    timings: Timings | None = None
    error: Any = None
    object: str | None = None
    message: Any = None


# Writes what a part says into its choice: whether there was a thought, and whether anything else.
Say = Callable[[Part, ChoiceDraft], tuple[bool, bool]]

_chunks = msgspec.json.Decoder(Chunk | None)


class ChunkDialect:
    """Reads the answers whose events are chunks of choices; `say` is what differs between them."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def event(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        self._take(payload, at_ns, draft, live=True)

    def body(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        self._take(payload, at_ns, draft, live=False)

    def _take(self, payload: bytes, at_ns: int, draft: Draft, *, live: bool) -> None:
        chunk = _chunks.decode(payload)
        if chunk is None:
            return  # llama.cpp sends `null` first when n > 1
        if chunk.error is not None:
            draft.fail(complaint(chunk.error))
        elif chunk.object == "error":
            draft.fail(words(chunk.message))
        of = []
        for number, part in enumerate(chunk.choices or ()):
            choice = draft.choice(part.index if part.index is not None else number)
            of.append(choice.index)
            choice.told(part.token_ids, logprobs_of(part.logprobs))
            thought, said = self._say(part, choice)
            if live and (thought or said):
                draft.token(choice, at_ns, visible=said)
            if (why := reason(part.finish_reason)) is not None:
                draft.finish(choice, why)
        _take_usage(draft, at_ns, of, chunk.usage, chunk.timings)


def _take_usage(
    draft: Draft, at_ns: int, of: list[int], usage: Usage | None, timings: Timings | None
) -> None:
    """Books the counts that came with a chunk. llama.cpp's are of one choice, the one that has just ended."""
    own = of if of or timings is None else [draft.last_ended]
    if usage is not None:
        details = usage.prompt_tokens_details
        cached = details.cached_tokens if details is not None else None
        draft.usage(at_ns, usage.prompt_tokens, usage.completion_tokens, cached, of=own)
    elif timings is not None and timings.predicted_n is not None:
        prompt = None if timings.prompt_n is None else timings.prompt_n + (timings.cache_n or 0)
        draft.usage(at_ns, prompt, timings.predicted_n, timings.cache_n, of=own)


def words(value: Any) -> str:
    """The text of a field that is a string, null, or (in some engines) a JSON value."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def reason(value: Any) -> str | None:
    """A finish reason, which some engines give as an object with a type."""
    if isinstance(value, dict):
        value = value.get("type")
    return value if isinstance(value, str) and value else None


def complaint(error: Any) -> str:
    """What an error object says."""
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    return words(error)
