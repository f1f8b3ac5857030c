"""The shapes of /v1/responses: events and the whole answer."""

from collections.abc import Mapping
from typing import Any

from emulator.answers import Answer, StreamedAnswer
from emulator.asks import Ask
from emulator.engine import Engine, Live
from emulator.sse import Channel, JsonTexts, data_event


class ResponsesStream(StreamedAnswer):
    """Numbered events: two at once, two with the first token, a delta per token, the closing ones."""

    def __init__(
        self, engine: Engine, ask: Ask, answer_id: str, created: int, channel: Channel, texts: JsonTexts
    ) -> None:
        super().__init__(engine, ask, answer_id, created, channel)
        self._item_id = item_id(answer_id)
        self._sequence = 0

    def token(self, live: Live) -> None:
        """Write this token's delta; a token without text has none."""
        position = live.emitted - 1
        text = live.plan.deltas[position]
        events = self._opening() if position == 0 else []
        if text:
            events.append(
                self._event("response.output_text.delta", {**self._place(), "delta": text, "logprobs": []})
            )
        if live.emitted == live.output_tokens:
            self.ended_one()
            self.channel.end(*events, *self._closing(live))
        elif events:
            self.channel.write(*events)

    def opened(self) -> None:
        """The response exists before anything is computed."""
        response = response_object(self, None)
        self.channel.write(
            self._event("response.created", {"response": response}),
            self._event("response.in_progress", {"response": response}),
        )

    def _opening(self) -> list[bytes]:
        item = {**item_object(self._item_id, None, "in_progress"), "content": []}
        part = {"annotations": [], "text": "", "type": "output_text", "logprobs": []}
        return [
            self._event("response.output_item.added", {"item": item, "output_index": 0}),
            self._event("response.content_part.added", {**self._place(), "part": part}),
        ]

    def _closing(self, live: Live) -> list[bytes]:
        text = "".join(live.plan.deltas)
        item = item_object(self._item_id, text, "completed")
        return [
            self._event("response.output_text.done", {**self._place(), "logprobs": [], "text": text}),
            self._event("response.content_part.done", {**self._place(), "part": item["content"][0]}),
            self._event("response.output_item.done", {"item": item, "output_index": 0}),
            self._event("response.completed", {"response": response_object(self, live)}),
        ]

    def _place(self) -> dict[str, Any]:
        return {"content_index": 0, "item_id": self._item_id, "output_index": 0}

    def _event(self, kind: str, payload: Mapping[str, Any]) -> bytes:
        numbered = {**payload, "sequence_number": self._sequence, "type": kind}
        self._sequence += 1
        return data_event(numbered, kind)


def item_id(answer_id: str) -> str:
    """The output message's id."""
    return "msg_" + answer_id.removeprefix("resp_")


def item_object(identity: str, text: str | None, status: str) -> dict[str, Any]:
    """The output message."""
    content: list[dict[str, Any]] = [
        {"annotations": [], "text": text or "", "type": "output_text", "logprobs": None}
    ]
    return {
        "id": identity,
        "content": content,
        "role": "assistant",
        "status": status,
        "type": "message",
        "phase": None,
    }


def response_object(answer: Answer, live: Live | None) -> dict[str, Any]:
    """The response: in progress while `live` is None, then complete."""
    ask = answer.ask
    body = ask.body
    cut = live is not None and live.plan.finish_reason == "length"
    output: list[dict[str, Any]] = []
    usage = None
    if live is not None:
        output = [item_object(item_id(answer.id), "".join(live.plan.deltas), "completed")]
        cached = live.cached_tokens if answer.engine.params.cached_tokens else 0
        usage = {
            "input_tokens": ask.prompt_tokens,
            "input_tokens_details": {
                "cached_tokens": cached,
                "cache_write_tokens": 0,
                "input_tokens_per_turn": [],
                "cached_tokens_per_turn": [],
            },
            "output_tokens": live.emitted,
            "output_tokens_details": {
                "reasoning_tokens": 0,
                "tool_output_tokens": 0,
                "output_tokens_per_turn": [],
                "tool_output_tokens_per_turn": [],
            },
            "total_tokens": ask.prompt_tokens + live.emitted,
        }
    return {
        "id": answer.id,
        "created_at": answer.created,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": body.get("instructions"),
        "metadata": body.get("metadata"),
        "model": ask.model,
        "object": "response",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": ask.wishes[0].temperature,
        "tool_choice": body.get("tool_choice", "none"),
        "tools": body.get("tools", []),
        "top_p": body.get("top_p", 1.0),
        "background": False,
        "max_output_tokens": ask.wishes[0].max_tokens,
        "max_tool_calls": None,
        "previous_response_id": None,
        "prompt": None,
        "reasoning": None,
        "service_tier": "auto",
        "status": "in_progress" if live is None else "incomplete" if cut else "completed",
        "text": None,
        "top_logprobs": None,
        "truncation": "disabled",
        "usage": usage,
        "user": body.get("user"),
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "input_messages": None,
        "output_messages": None,
    }


def responses_body(answer: Answer) -> dict[str, Any]:
    """The answer to a request that did not stream."""
    return response_object(answer, answer.lives[0])
