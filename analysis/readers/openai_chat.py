"""How do chat completions answer?  OpenAI's /v1/chat/completions, as engines speak it."""

from dataclasses import dataclass
from typing import Any

import msgspec

from analysis.readers._draft import Draft
from analysis.readers._openai import Timings, Tool, Usage, complaint, reason, take_usage, words
from analysis.readers._reader import JsonReader, Reader

PATHS = ("/v1/chat/completions", "/chat/completions")


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


class _Message(msgspec.Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: list[Tool] | None = None


class _Choice(msgspec.Struct):
    index: int | None = None
    delta: _Message | None = None
    message: _Message | None = None
    finish_reason: Any = None
    token_ids: list[int] | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Usage | None = None
    timings: Timings | None = None
    error: Any = None
    object: str | None = None
    message: Any = None


_chunks = msgspec.json.Decoder(_Chunk | None)


class OpenaiChat:
    """Chunks of `chat.completion.chunk`, or one `chat.completion`."""

    def event(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        chunk = _chunks.decode(payload)
        if chunk is None:
            return  # llama.cpp sends `null` first when n > 1
        begun = draft.events
        self._take(chunk, at_ns, draft, live=True)
        take_usage(draft, at_ns, begun, chunk.usage, chunk.timings)

    def body(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        chunk = _chunks.decode(payload)
        if chunk is None:
            return
        self._take(chunk, at_ns, draft, live=False)
        take_usage(draft, at_ns, draft.events, chunk.usage, chunk.timings)

    def _take(self, chunk: _Chunk, at_ns: int, draft: Draft, *, live: bool) -> None:
        if chunk.error is not None:
            draft.fail(complaint(chunk.error))
        elif chunk.object == "error":
            draft.fail(words(chunk.message))
        for number, part in enumerate(chunk.choices or ()):
            choice = draft.choice(part.index if part.index is not None else number)
            message = part.delta if part.delta is not None else part.message
            if message is not None:
                thought = words(message.reasoning_content) or words(message.reasoning)
                said = words(message.content) + words(message.refusal)
                called = False
                for position, tool in enumerate(message.tool_calls or ()):
                    function = tool.function
                    called |= choice.tool(
                        tool.index if tool.index is not None else position,
                        tool.id,
                        function.name if function else None,
                        words(function.arguments) if function else None,
                    )
                if thought:
                    choice.reasonings.append(thought)
                if said:
                    choice.texts.append(said)
                if live and (thought or said or called):
                    ids = None if part.token_ids is None else len(part.token_ids)
                    draft.token(at_ns, visible=bool(said or called), ids=ids)
            choice.finish_reason = reason(part.finish_reason) or choice.finish_reason


def build(_params: Params) -> Reader:
    """A reader for one answer."""
    return JsonReader(OpenaiChat())
