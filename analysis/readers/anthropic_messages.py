"""How do messages answer?  Anthropic's /v1/messages: content blocks."""

from dataclasses import dataclass
from typing import Any

import msgspec

from analysis.readers._draft import Draft
from analysis.readers._openai import complaint, words
from analysis.readers._reader import JsonReader, Reader

PATHS = ("/v1/messages",)


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Block(msgspec.Struct):
    """A content block, or a delta of one."""

    type: str | None = None
    text: Any = None
    thinking: Any = None
    partial_json: Any = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    stop_reason: str | None = None


class _Message(msgspec.Struct):
    content: list[_Block] | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None
    error: Any = None


class _Event(msgspec.Struct):
    type: str | None = None
    index: int | None = None
    message: Any = None
    content_block: _Block | None = None
    delta: _Block | None = None
    usage: _Usage | None = None
    error: Any = None


_events = msgspec.json.Decoder(_Event)
_messages = msgspec.json.Decoder(_Message)


class AnthropicMessages:
    """`message_start`, `content_block_delta` and the rest, or one message object. One choice."""

    def event(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        event = _events.decode(payload)
        kind = event.type
        choice = draft.choice(0)
        if kind == "message_start":
            self._usage(msgspec.convert(event.message or {}, _Message).usage, at_ns, draft)
        elif kind in ("content_block_delta", "content_block_start"):
            block = event.delta or event.content_block
            if block is None:
                return
            said, thought = words(block.text), words(block.thinking)
            fragment = words(block.partial_json)
            called = _tool(block) and choice.tool(event.index, block.id, block.name, fragment)
            if said:
                choice.texts.append(said)
            if thought:
                choice.reasonings.append(thought)
            if said or thought or called:
                draft.token(choice, at_ns, visible=bool(said or called))
        elif kind == "message_delta":
            if event.delta is not None and event.delta.stop_reason:
                choice.finish_reason = event.delta.stop_reason
            self._usage(event.usage, at_ns, draft)
        elif kind == "error" or event.error is not None:
            draft.fail(complaint(event.error) or "error")

    def body(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        message = _messages.decode(payload)
        choice = draft.choice(0)
        for position, block in enumerate(message.content or ()):
            if _tool(block):
                choice.tool(position, block.id, block.name, words(block.input))
            choice.texts.append(words(block.text))
            choice.reasonings.append(words(block.thinking))
        choice.finish_reason = message.stop_reason
        self._usage(message.usage, at_ns, draft)
        if message.error is not None:
            draft.fail(complaint(message.error) or "error")

    def _usage(self, usage: _Usage | None, at_ns: int, draft: Draft) -> None:
        if usage is None:
            return
        # Anthropic counts cached tokens beside input_tokens; our prompt tokens hold them.
        cached = usage.cache_read_input_tokens
        prompt = usage.input_tokens
        if prompt is not None:
            prompt += (cached or 0) + (usage.cache_creation_input_tokens or 0)
        draft.usage(at_ns, prompt, usage.output_tokens, cached)


def _tool(block: _Block) -> bool:
    return block.type in ("tool_use", "server_tool_use", "input_json_delta")


def build(_params: Params) -> Reader:
    """A reader for one answer."""
    return JsonReader(AnthropicMessages())
