"""The shapes of /v1/completions: chunks and the whole answer."""

from collections.abc import Sequence
from typing import Any

from emulator.answers import FINGERPRINT, Answer, StreamedAnswer, completion_logprobs
from emulator.asks import Ask
from emulator.engine import Engine, Live
from emulator.generation import alternatives
from emulator.sse import DONE, Channel, Frame, JsonTexts, data_event


class CompletionStream(StreamedAnswer):
    """A chunk per token, finish reason with the last one, usage, [DONE]."""

    def __init__(
        self, engine: Engine, ask: Ask, answer_id: str, created: int, channel: Channel, texts: JsonTexts
    ) -> None:
        super().__init__(engine, ask, answer_id, created, channel)
        self._head = {"id": answer_id, "object": "text_completion", "created": created, "model": ask.model}
        self._offsets = [0] * self.remaining
        plain = not ask.continuous_usage and not ask.return_token_ids and ask.logprobs is None
        self._frames: list[Frame] | None = None
        if plain and channel.chunked:
            self._frames = [Frame(self._chunk(index, "\0"), texts) for index in range(self.remaining)]

    def token(self, live: Live) -> None:
        """Write this token's chunk."""
        position = live.emitted - 1
        last = live.emitted == live.output_tokens
        frames = self._frames
        if frames is not None and position and not last:
            self.channel.send(frames[live.index].chunk(live.plan.deltas[position]))
            return
        events = [data_event(self._token_chunk(live, position, last))]
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

    def _chunk(self, index: int, text: str) -> dict[str, Any]:
        choice = {
            "index": index, "text": text, "logprobs": None, "finish_reason": None, "stop_reason": None,
            "prompt_token_ids": None, "token_ids": None,
        }  # fmt: skip
        return {**self._head, "choices": [choice]}

    def _token_chunk(self, live: Live, position: int, last: bool) -> dict[str, Any]:
        ask = self.ask
        token = live.plan.tokens[position]
        text = live.plan.deltas[position]
        if position == 0 and ask.echo:
            text = ask.echo[live.index] + text
        chunk = self._chunk(live.index, text)
        choice = chunk["choices"][0]
        if ask.logprobs is not None:
            offset = self._offsets[live.index]
            choice["logprobs"] = completion_logprobs(
                self.engine.tokenizer, (token,), position, offset, ask.logprobs
            )
            self._offsets[live.index] += len(text)
        if ask.return_token_ids:
            choice["token_ids"] = [token]
            if position == 0:
                choice["prompt_token_ids"] = list(ask.prompts[live.index])
        if last:
            choice["finish_reason"] = live.plan.finish_reason
            choice["stop_reason"] = live.plan.stop_reason
        if ask.continuous_usage:
            chunk["usage"] = self.usage(details=False)
        if last and not ask.include_usage:
            chunk["system_fingerprint"] = FINGERPRINT
        return chunk


def _prompt_logprobs(answer: Answer, prompt: Sequence[int]) -> list[dict[str, Any] | None] | None:
    """How likely the model finds a prompt's tokens: each with the likeliest in its place, by id."""
    count = answer.ask.prompt_logprobs
    if count is None:
        return None
    tokenizer, seed = answer.engine.tokenizer, answer.engine.params.model_seed
    rows: list[dict[str, Any] | None] = [None]
    for position, token in enumerate(prompt[1:], start=1):
        own, *others = alternatives(token, position, count + 1, seed)
        ranked = sorted((own, *others), key=lambda pair: -pair[1])
        ranks = {pair[0]: rank for rank, pair in enumerate(ranked, start=1)}
        rows.append(
            {
                str(one): {"logprob": value, "rank": ranks[one], "decoded_token": tokenizer.token_text(one)}
                for one, value in dict([own, *ranked[:count]]).items()
            }
        )
    return rows


def completion_body(answer: Answer) -> dict[str, Any]:
    """The answer to a request that did not stream."""
    ask = answer.ask
    choices: list[dict[str, Any]] = []
    for live in answer.lives:
        plan = live.plan
        text = "".join(plan.deltas)
        logprobs = None
        if ask.logprobs is not None:
            logprobs = completion_logprobs(answer.engine.tokenizer, plan.tokens, 0, 0, ask.logprobs)
        choices.append(
            {
                "index": live.index,
                "text": ask.echo[live.index] + text if ask.echo else text,
                "logprobs": logprobs,
                "finish_reason": plan.finish_reason,
                "stop_reason": plan.stop_reason,
                "token_ids": list(plan.tokens) if ask.return_token_ids else None,
                "prompt_logprobs": _prompt_logprobs(answer, ask.prompts[live.index]),
                "prompt_token_ids": list(ask.prompts[live.index]) if ask.return_token_ids else None,
                "routed_experts": None,
            }
        )
    return {
        "id": answer.id,
        "object": "text_completion",
        "created": answer.created,
        "model": ask.model,
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": answer.usage(plain=True),
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }
