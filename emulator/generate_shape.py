"""The shapes of /inference/v1/generate: token ids in, token ids out; vLLM's scale-out endpoint."""

from collections.abc import Iterable
from typing import Any

from emulator.answers import Answer, StreamedAnswer, chat_logprobs
from emulator.engine import Live
from emulator.sse import DONE, Channel, JsonTexts, data_event


class GenerateStream(StreamedAnswer):
    """A chunk per token, usage, [DONE]."""

    def __init__(self, engine: Any, ask: Any, answer_id: str, created: int, channel: Channel,
                 _texts: JsonTexts) -> None:  # fmt: skip
        super().__init__(engine, ask, answer_id, created, channel)

    def token(self, live: Live) -> None:
        """Write this token's chunk."""
        position = live.emitted - 1
        last = live.emitted == live.output_tokens
        choice: dict[str, Any] = {
            "index": live.index, "finish_reason": live.plan.finish_reason if last else None,
            "stop_reason": None, "token_ids": [live.plan.tokens[position]],
            "logprobs": _logprobs(self, live, [position]),
        }  # fmt: skip
        chunk: dict[str, Any] = {"request_id": self.id, "output_mode": "tokens", "choices": [choice]}
        if position == 0 and self.ask.return_token_ids:
            chunk["prompt_token_ids"] = list(self.ask.prompts[live.index])
        if not last or not self.ended_one():
            self.channel.write(data_event(chunk))
            return
        events = [data_event(chunk)]
        if self.ask.include_usage:
            whole = {"request_id": self.id, "output_mode": "tokens", "choices": [], "usage": self.usage()}
            events.append(data_event(whole))
        self.channel.end(*events, DONE)


def _logprobs(answer: Answer, live: Live, positions: Iterable[int]) -> dict[str, Any] | None:
    """As chat completions have them; None where they were not asked for."""
    count, tokens = answer.ask.logprobs, live.plan.tokens
    if count is None:
        return None
    told = [chat_logprobs(answer.engine.tokenizer, tokens[at], at, count) for at in positions]
    return {"content": told}


def generate_body(answer: Answer) -> dict[str, Any]:
    """The answer to a request that did not stream."""
    ask = answer.ask
    choices = [
        {
            "index": live.index,
            "finish_reason": live.plan.finish_reason,
            "stop_reason": None,
            "token_ids": list(live.plan.tokens),
            "logprobs": _logprobs(answer, live, range(len(live.plan.tokens))),
        }
        for live in answer.lives
    ]
    return {
        "request_id": answer.id,
        "model": ask.model,
        "created": answer.created,
        "usage": answer.usage(plain=True),
        "prompt_token_ids": list(ask.prompts[0]) if ask.return_token_ids else None,
        "output_mode": "tokens",
        "choices": choices,
    }
