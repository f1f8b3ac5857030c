"""How do responses answer?  OpenAI's /v1/responses: typed events, and a final response object."""

from dataclasses import dataclass
from typing import Any

import msgspec

from analysis.readers._draft import Draft
from analysis.readers._openai import Details, complaint, words
from analysis.readers._reader import JsonReader, Reader

PATHS = ("/v1/responses", "/responses")

_TEXT = ("response.output_text.delta", "response.refusal.delta")
_REASONING = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")
_ARGUMENTS = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: Details | None = None


class _Part(msgspec.Struct):
    type: str | None = None
    text: Any = None
    refusal: Any = None


class _Item(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: Any = None
    input: Any = None
    content: list[_Part] | None = None
    summary: list[_Part] | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    status: str | None = None
    output: list[_Item] | None = None
    usage: _Usage | None = None
    error: Any = None
    incomplete_details: _Incomplete | None = None


class _Event(msgspec.Struct):
    type: str | None = None
    delta: Any = None
    output_index: int | None = None
    item_id: str | None = None
    item: _Item | None = None
    response: _Response | None = None
    error: Any = None
    message: Any = None


_events = msgspec.json.Decoder(_Event)
_responses = msgspec.json.Decoder(_Response)


class OpenaiResponses:
    """`response.*` events, or one response object. One choice; function calls are its tool calls."""

    def event(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        event = _events.decode(payload)
        kind = event.type or ""
        if kind in _TEXT or kind in _REASONING:
            said = words(event.delta)
            if said:
                visible = kind in _TEXT
                choice = draft.choice(0)
                (choice.texts if visible else choice.reasonings).append(said)
                draft.token(choice, at_ns, visible=visible)
        elif kind in _ARGUMENTS:
            choice = draft.choice(0)
            if choice.tool(event.output_index, event.item_id, None, words(event.delta)):
                draft.token(choice, at_ns, visible=True)
        elif kind == "response.output_item.added":
            item = event.item
            if item is None or not (item.type or "").endswith("_call"):
                return
            choice = draft.choice(0)
            if choice.tool(event.output_index, item.id, item.name, None):
                draft.token(choice, at_ns, visible=True)
        elif kind in _ENDS:
            if event.response is not None:
                self._close(event.response, at_ns, draft, status=kind.removeprefix("response."))
            draft.ended = kind != "response.cancelled"
        elif kind == "error" or event.error is not None:
            draft.fail(complaint(event.error) or words(event.message) or "error")

    def body(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        response = _responses.decode(payload)
        choice = draft.choice(0)
        for position, item in enumerate(response.output or ()):
            if item.type == "reasoning":
                choice.reasonings.extend(words(part.text) for part in item.content or item.summary or ())
            elif item.type is not None and item.type.endswith("_call"):
                choice.tool(position, item.id, item.name, words(item.arguments) or words(item.input))
            else:
                choice.texts.extend(words(part.text) + words(part.refusal) for part in item.content or ())
        self._close(response, at_ns, draft, status=response.status or "")
        draft.ended = response.status in ("completed", "incomplete")

    def _close(self, response: _Response, at_ns: int, draft: Draft, *, status: str) -> None:
        if response.error is not None or status == "failed":
            draft.fail(complaint(response.error) or "failed")
        usage = response.usage
        if usage is not None:
            details = usage.input_tokens_details
            cached = details.cached_tokens if details is not None else None
            draft.usage(at_ns, usage.input_tokens, usage.output_tokens, cached)
        # vLLM ends an answer that ran out of tokens with response.completed and the status "incomplete".
        reported = response.status if response.status in ("completed", "incomplete") else status
        why = response.incomplete_details.reason if response.incomplete_details is not None else None
        draft.choice(0).finish_reason = why or reported or None


def build(_params: Params) -> Reader:
    """A reader for one answer."""
    return JsonReader(OpenaiResponses())
