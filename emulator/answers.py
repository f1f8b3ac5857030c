"""What every answer shares, streamed or not: who listens to its tokens, when it is done, what it used."""

import asyncio
from typing import Any

from emulator.asks import Ask
from emulator.engine import Engine, Live
from emulator.faults import Fault
from emulator.generation import alternatives
from emulator.refusals import Refusal, broken
from emulator.sse import DONE, Channel
from emulator.text import Tokenizer

FINGERPRINT = "vllm-0.32.0-emulated"


class Answer:
    """Collects: `done` resolves when every sequence has ended, with the fault that broke it if one did."""

    def __init__(self, engine: Engine, ask: Ask, answer_id: str, created: int) -> None:
        self.engine = engine
        self.ask = ask
        self.id = answer_id
        self.created = created
        self.lives: list[Live] = []
        self.remaining = len(ask.prompts)
        self.done: asyncio.Future[Fault | None] = asyncio.get_running_loop().create_future()

    def begin(self, fault: Fault | None) -> None:
        """Queue the sequences; Refusal when there is no room."""
        self.lives = self.engine.submit(self.ask, self, fault)

    def token(self, live: Live) -> None:
        """One more token of one sequence."""
        if live.emitted == live.output_tokens:
            self.ended_one()

    def ended_one(self) -> bool:
        """One sequence is complete; True if it was the last."""
        self.remaining -= 1
        if self.remaining == 0 and not self.done.done():
            self.done.set_result(None)
        return self.remaining == 0

    def fail(self, fault: Fault) -> None:
        """The answer breaks: whoever waits decides what the client sees."""
        self.abandon()
        if not self.done.done():
            self.done.set_result(fault)

    def abandon(self) -> None:
        """Nobody listens any more; sequences still running leave the engine at its next step."""
        for live in self.lives:
            self.engine.abort(live)

    def cached_tokens(self) -> int:
        """Prompt tokens that were in the KV cache, over all prompts."""
        pairs = zip(self.lives, self.ask.wishes, strict=True)
        return sum(live.cached_tokens for live, wish in pairs if wish.choice == 0)

    def usage(self, *, details: bool = True, plain: bool = False) -> dict[str, Any]:
        """The OpenAI `usage` object; `plain` is the longer one of answers that are not streamed."""
        completion = sum(live.emitted for live in self.lives)
        prompt = self.ask.prompt_tokens
        usage: dict[str, Any] = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "completion_tokens": completion,
        }
        if details and self.engine.params.cached_tokens:
            cached = self.cached_tokens()
            size = self.engine.params.block_size
            whole = sum(
                len(p) // size * size
                for p, w in zip(self.ask.prompts, self.ask.wishes, strict=True)
                if w.choice == 0
            )
            usage["prompt_tokens_details"] = {
                "cached_tokens": cached,
                "created_cache_tokens": max(0, whole - cached) if whole else None,
            }
            if plain:
                usage["prompt_tokens_details"]["multimodal_tokens"] = None
        elif plain:
            usage["prompt_tokens_details"] = None
        if plain or not details:
            usage["completion_tokens_details"] = None
        return usage


class StreamedAnswer(Answer):
    """An answer whose tokens are written as they come."""

    def __init__(self, engine: Engine, ask: Ask, answer_id: str, created: int, channel: Channel) -> None:
        super().__init__(engine, ask, answer_id, created)
        self.channel = channel

    def opened(self) -> None:
        """The sequences are queued: what a stream says before its first token."""

    def fail(self, fault: Fault) -> None:
        """An error event and a proper end, or a broken connection."""
        if self.done.done():
            return
        if fault is Fault.CUT:
            self.channel.cut()
        else:
            self.refuse(broken())
        super().fail(fault)

    def refuse(self, refusal: Refusal) -> None:
        """vLLM's streams say it inside their 200."""
        self.channel.end(b"data: %b\n\n" % refusal.event(), DONE)


def chat_logprobs(tokenizer: Tokenizer, token: int, position: int, count: int) -> dict[str, Any]:
    """One entry of `logprobs.content`, with `count` alternatives."""

    def entry(candidate: int, logprob: float) -> dict[str, Any]:
        raw = tokenizer.token_bytes(candidate)
        return {"token": tokenizer.token_text(candidate), "logprob": logprob, "bytes": list(raw)}

    ranked = [entry(*pair) for pair in alternatives(token, position, max(1, count))]
    return {**ranked[0], "top_logprobs": ranked[:count]}


def completion_logprobs(
    tokenizer: Tokenizer, tokens: tuple[int, ...], position: int, offset: int, count: int
) -> dict[str, Any]:
    """The parallel lists of /v1/completions for `tokens`, the first being number `position`, at `offset`."""
    texts = [tokenizer.token_text(token) for token in tokens]
    ranked = [alternatives(token, position + i, max(1, count)) for i, token in enumerate(tokens)]
    offsets: list[int] = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    return {
        "text_offset": offsets,
        "token_logprobs": [pairs[0][1] for pairs in ranked],
        "tokens": texts,
        "top_logprobs": [{tokenizer.token_text(t): logprob for t, logprob in pairs} for pairs in ranked],
    }
