"""The shapes of /v1/messages: Anthropic's events and whole answer."""

from typing import Any

from emulator.answers import Answer, StreamedAnswer
from emulator.asks import Ask
from emulator.engine import Engine, Live
from emulator.refusals import Refusal
from emulator.sse import Channel, Frame, JsonTexts, data_event

_REASONS = {"length": "max_tokens", "stop": "end_turn"}


class MessagesStream(StreamedAnswer):
    """message_start and content_block_start with the first token, a delta per token, the closing events."""

    def __init__(
        self, engine: Engine, ask: Ask, answer_id: str, created: int, channel: Channel, texts: JsonTexts
    ) -> None:
        super().__init__(engine, ask, answer_id, created, channel)
        self._frame = Frame(_delta("\0"), texts, "content_block_delta") if channel.chunked else None

    def token(self, live: Live) -> None:
        """Write this token's delta; a token without text has none."""
        text = live.plan.deltas[live.emitted - 1]
        last = live.emitted == live.output_tokens
        if self._frame is not None and live.emitted > 1 and not last:
            if text:
                self.channel.send(self._frame.chunk(text))
            return
        events = self._opening() if live.emitted == 1 else []
        if text:
            events.append(data_event(_delta(text), "content_block_delta"))
        if not last:
            self.channel.write(*events)
            return
        self.ended_one()
        self.channel.end(*events, *self._closing(live))

    def refuse(self, refusal: Refusal) -> None:
        """An error event."""
        self.channel.end(data_event(messages_error(refusal), "error"))

    def _opening(self) -> list[bytes]:
        message: dict[str, Any] = {
            "id": self.id, "type": "message", "role": "assistant", "content": [], "model": self.ask.model,
            "stop_reason": None, "stop_sequence": None,
            "usage": {"input_tokens": self.ask.prompt_tokens, "output_tokens": 0},
        }  # fmt: skip
        block = {"type": "content_block_start", "content_block": {"type": "text", "text": ""}, "index": 0}
        return [
            data_event({"type": "message_start", "message": message}, "message_start"),
            data_event(block, "content_block_start"),
        ]

    def _closing(self, live: Live) -> list[bytes]:
        delta = {"stop_reason": stop_reason(live), "stop_sequence": live.plan.stop_reason}
        usage = {"input_tokens": self.ask.prompt_tokens, "output_tokens": live.emitted}
        return [
            data_event({"type": "content_block_stop", "index": 0}, "content_block_stop"),
            data_event({"type": "message_delta", "delta": delta, "usage": usage}, "message_delta"),
            data_event({"type": "message_stop"}, "message_stop"),
        ]


def messages_body(answer: Answer) -> dict[str, Any]:
    """The answer to a request that did not stream."""
    live = answer.lives[0]
    body = {
        "id": answer.id, "type": "message", "role": "assistant",
        "content": [{"type": "text", "text": "".join(live.plan.deltas)}], "model": answer.ask.model,
        "stop_reason": stop_reason(live),
    }  # fmt: skip
    if live.plan.stop_reason is not None:
        body["stop_sequence"] = live.plan.stop_reason
    return {**body, "usage": {"input_tokens": answer.ask.prompt_tokens, "output_tokens": live.emitted}}


def stop_reason(live: Live) -> str:
    """Why it ended, in Anthropic's words."""
    return "stop_sequence" if live.plan.stop_reason is not None else _REASONS[live.plan.finish_reason]


def messages_error(refusal: Refusal) -> dict[str, Any]:
    """A refusal in Anthropic's shape."""
    return {"type": "error", "error": {"type": refusal.kind, "message": refusal.message}}


def _delta(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}, "index": 0}
