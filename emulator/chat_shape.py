"""The shapes of /v1/chat/completions: chunks, tool-call chunks, and the whole answer."""

from typing import Any

from emulator.answers import FINGERPRINT, Answer, StreamedAnswer, chat_logprobs
from emulator.asks import Ask
from emulator.engine import Engine, Live
from emulator.sse import DONE, Channel, Frame, JsonTexts, data_event


class ChatStream(StreamedAnswer):
    """Role chunk with the first token, a chunk per token, finish reason with the last, usage, [DONE]."""

    def __init__(
        self, engine: Engine, ask: Ask, answer_id: str, created: int, channel: Channel, texts: JsonTexts
    ) -> None:
        super().__init__(engine, ask, answer_id, created, channel)
        self._head = {
            "id": answer_id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": ask.model,
        }
        plain = (
            not ask.continuous_usage
            and not ask.return_token_ids
            and ask.logprobs is None
            and ask.tool is None
        )
        self._frames: list[Frame] | None = None
        if plain and channel.chunked:
            self._frames = [
                Frame(self._chunk(index, {"content": "\0"}), texts) for index in range(self.remaining)
            ]

    def token(self, live: Live) -> None:
        """Write this token's chunk."""
        position = live.emitted - 1
        last = live.emitted == live.output_tokens
        frames = self._frames
        if frames is not None and position and not last:
            self.channel.send(frames[live.index].chunk(live.plan.deltas[position]))
            return
        events: list[bytes] = []
        if position == 0:
            events.append(data_event(self._role(live)))
        events.extend(data_event(chunk) for chunk in self._token_chunks(live, position, last))
        if not last or not self.ended_one():
            self.channel.write(*events)
            return
        if self.ask.include_usage:
            events.append(
                data_event(
                    {**self._head, "choices": [], "usage": self.usage(), "system_fingerprint": FINGERPRINT}
                )
            )
        self.channel.end(*events, DONE)

    def _chunk(
        self, index: int, delta: dict[str, Any], logprobs: Any = None, token_ids: Any = None
    ) -> dict[str, Any]:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": None,
            "token_ids": token_ids,
        }
        return {**self._head, "choices": [choice]}

    def _role(self, live: Live) -> dict[str, Any]:
        delta = {"role": "assistant", "content": ""}
        choice = {"index": live.index, "delta": delta, "logprobs": None, "finish_reason": None}
        chunk: dict[str, Any] = {**self._head, "choices": [choice]}
        if self.ask.continuous_usage:
            prompt = self.ask.prompt_tokens
            chunk["usage"] = {
                "prompt_tokens": prompt,
                "total_tokens": prompt,
                "completion_tokens": 0,
                "completion_tokens_details": None,
            }
        ids = list(self.ask.prompts[live.index]) if self.ask.return_token_ids else None
        return {**chunk, "prompt_token_ids": ids, "prompt_text": None}

    def _token_chunks(self, live: Live, position: int, last: bool) -> list[dict[str, Any]]:
        """This token's chunk, with another before it where a tool call begins."""
        token = live.plan.tokens[position]
        text = live.plan.deltas[position]
        chunks: list[dict[str, Any]] = []
        if self.ask.tool is None:
            delta: dict[str, Any] = {"content": text}
        else:
            if position == 0:
                call = {"id": f"chatcmpl-tool-{self.id[-16:]}", "type": "function", "index": 0}
                named = {**call, "function": {"name": self.ask.tool}}
                chunks.append(self._chunk(live.index, {"content": None, "tool_calls": [named]}))
            delta = {"content": None, "tool_calls": [{"index": 0, "function": {"arguments": text}}]}
        logprobs = None
        if self.ask.logprobs is not None:
            logprobs = {"content": [chat_logprobs(self.engine.tokenizer, token, position, self.ask.logprobs)]}
        chunk = self._chunk(live.index, delta, logprobs, [token] if self.ask.return_token_ids else None)
        if last:
            choice = chunk["choices"][0]
            ids = choice.pop("token_ids")
            choice |= {
                "finish_reason": finish_reason(self.ask, live),
                "stop_reason": live.plan.stop_reason,
                "token_ids": ids,
            }
        if self.ask.continuous_usage:
            chunk["usage"] = self.usage(details=False)
        if last and not self.ask.include_usage:
            chunk["system_fingerprint"] = FINGERPRINT
        chunks.append(chunk)
        return chunks


def chat_body(answer: Answer) -> dict[str, Any]:
    """The answer to a request that did not stream."""
    ask = answer.ask
    choices: list[dict[str, Any]] = []
    for live in answer.lives:
        text = "".join(live.plan.deltas)
        message: dict[str, Any] = {
            "role": "assistant", "content": text, "refusal": None, "annotations": None, "audio": None,
            "function_call": None, "reasoning": None,
        }  # fmt: skip
        if ask.tool is not None:
            call = {"id": f"chatcmpl-tool-{answer.id[-16:]}", "type": "function"}
            message["content"] = None
            message["tool_calls"] = [{**call, "function": {"name": ask.tool, "arguments": text}}]
        logprobs = None
        if ask.logprobs is not None:
            tokenizer = answer.engine.tokenizer
            entries = [chat_logprobs(tokenizer, t, i, ask.logprobs) for i, t in enumerate(live.plan.tokens)]
            logprobs = {"content": entries}
        choices.append(
            {
                "index": live.index,
                "message": message,
                "logprobs": logprobs,
                "finish_reason": finish_reason(ask, live),
                "stop_reason": live.plan.stop_reason,
                "token_ids": list(live.plan.tokens) if ask.return_token_ids else None,
                "routed_experts": None,
            }
        )
    return {
        "id": answer.id,
        "object": "chat.completion",
        "created": answer.created,
        "model": ask.model,
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": answer.usage(plain=True),
        "prompt_logprobs": None,
        "prompt_token_ids": list(ask.prompts[0]) if ask.return_token_ids else None,
        "prompt_text": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


def finish_reason(ask: Ask, live: Live) -> str:
    """vLLM says "tool_calls" only when a tool was required, not when one was named."""
    if ask.tool_required and live.plan.finish_reason == "stop":
        return "tool_calls"
    return live.plan.finish_reason
