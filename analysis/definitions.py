"""What would other tools say of one streamed answer?  Their TTFT, ITL, TPOT and E2E beside ours.

The names are the same everywhere and the formulas are not. Sources, each as of the version named: AIPerf 0.13
`metrics/types`; GuideLLM 0.8.1 `schemas/base/request_stats.py`, `backends/openai/http.py`; genai-bench 0.0.5
`user/openai_user.py`, `metrics/request_metrics_collector.py`; inference-perf 0.7 `apis/chat.py`; vLLM 0.32.0
`benchmarks/lib/endpoint_request_func.py`; LLMPerf f1d6bed `ray_clients/openai_chat_completions_client.py`,
`token_benchmark_ray.py`.
Each is taken with the engine's own token count, where it can be told to.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from analysis.readers._choose import reader_of
from analysis.readers._events import EventSplitter
from analysis.readers._openai import Chunk, words
from analysis.timing import timing
from analysis.transcript import Transcript

_PATH = "/v1/chat/completions"
_chunks = msgspec.json.Decoder(Chunk | None)


@dataclass(frozen=True, slots=True)
class Row:
    """One tool's figures in ms, None where it has none for this stream; `note` says why, or what is odd."""

    tool: str
    ttft_ms: float | None
    itl_ms: float | None
    tpot_ms: float | None
    e2e_ms: float | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Event:
    """One event of the stream: what its first choice has, and whether it has a choice and a usage at all."""

    at_ns: int
    has_choice: bool = False
    content: bool = False
    reasoning: bool = False
    tool: bool = False
    finish: bool = False
    usage: bool = False

    @property
    def says(self) -> bool:
        return self.content or self.reasoning or self.tool


@dataclass(frozen=True, slots=True)
class _Stream:
    events: tuple[_Event, ...]
    sent_ns: int
    end_ns: int
    tokens: int | None

    def instants(self, holds: Callable[[_Event], bool]) -> list[float]:
        """When such events came, in ms after the request was sent."""
        return [(event.at_ns - self.sent_ns) / 1e6 for event in self.events if holds(event)]

    @property
    def end_ms(self) -> float:
        return (self.end_ns - self.sent_ns) / 1e6


def definitions(reads: Sequence[tuple[int, bytes]], sent_ns: int, end_ns: int) -> list[Row]:
    """Every tool's figures of one chat completion that was streamed, read by read; ours first."""
    reader = reader_of(_PATH)
    for at_ns, data in reads:
        reader.feed(data, at_ns)
    content = reader.end(end_ns)
    ours = timing(Transcript(sent_ns, sent_ns, sent_ns, end_ns, 200, "complete", content))
    stream = _Stream(_events(reads), sent_ns, end_ns, content.completion_tokens)
    return [
        Row("Shadowlane", ours.ttft_ms, ours.itl_ms, ours.tpot_ms, ours.e2e_ms, "ITL is the median gap"),
        _aiperf(stream),
        _guidellm(stream),
        _genai_bench(stream),
        _inference_perf(stream),
        _vllm(stream),
        _llmperf(stream),
    ]


def _events(reads: Sequence[tuple[int, bytes]]) -> tuple[_Event, ...]:
    splitter, found = EventSplitter(), []
    for at_ns, data in reads:
        for payload in splitter.feed(data):
            try:
                chunk = None if payload == b"[DONE]" else _chunks.decode(payload)
            except msgspec.MsgspecError:
                continue
            if chunk is not None:
                found.append(_event(chunk, at_ns))
    return tuple(found)


def _event(chunk: Chunk, at_ns: int) -> _Event:
    usage = chunk.usage is not None
    if not chunk.choices:
        return _Event(at_ns, usage=usage)
    part = chunk.choices[0]
    delta = part.delta
    return _Event(
        at_ns,
        has_choice=True,
        content=delta is not None and bool(words(delta.content)),
        reasoning=delta is not None and bool(words(delta.reasoning_content) or words(delta.reasoning)),
        tool=delta is not None and bool(delta.tool_calls),
        finish=bool(part.finish_reason),
        usage=usage,
    )


def _aiperf(stream: _Stream) -> Row:
    """E2E ends at the last event that says something; ITL is (E2E - TTFT) / (N - 1), and there is no TPOT."""
    said = stream.instants(lambda event: event.says)
    if not said:
        return _none("AIPerf", "no event says anything")
    return Row("AIPerf", said[0], _per_token(said[-1] - said[0], stream.tokens, 1), None, said[-1])


def _guidellm(stream: _Stream) -> Row:
    """TPOT holds the first token's time: (last - sent) / N. E2E ends with the response."""
    said = stream.instants(lambda event: event.says)
    if not said:
        return _none("GuideLLM", "no event says anything")
    itl, tpot = _per_token(said[-1] - said[0], stream.tokens, 1), _per_token(said[-1], stream.tokens, 0)
    return Row("GuideLLM", said[0], itl, tpot, stream.end_ms, "TPOT includes TTFT")


def _genai_bench(stream: _Stream) -> Row:
    """Text and reasoning count, tool calls do not. E2E ends at the usage that follows the finish reason."""
    said = stream.instants(lambda event: event.content or event.reasoning)
    if not said:
        return _none("genai-bench", "it fails where no text comes")
    ended, end = False, stream.end_ms
    for event in stream.events:
        ended = ended or event.finish
        if ended and event.usage:
            end = (event.at_ns - stream.sent_ns) / 1e6
            break
    return Row("genai-bench", said[0], None, _per_token(end - said[0], stream.tokens, 1), end)


def _inference_perf(stream: _Stream) -> Row:
    """Text alone counts: reasoning passes unseen. ITL are the raw gaps, here their mean; where its tokenizer
    finds several tokens in a chunk it has gaps of nothing between them, which are not known here."""
    said = stream.instants(lambda event: event.content)
    if not said:
        return _none("inference-perf", "reasoning and tool calls are not seen")
    gap = (said[-1] - said[0]) / (len(said) - 1) if len(said) > 1 else None
    tpot = _per_token(said[-1] - said[0], stream.tokens, 1)
    return Row(
        "inference-perf", said[0], gap, tpot, stream.end_ms, "one token a chunk; reasoning is not seen"
    )


def _vllm(stream: _Stream) -> Row:
    """Every event with a choice counts, an empty one too: the role's comes first, the finish's last."""
    said = stream.instants(lambda event: event.has_choice)
    if not said:
        return _none("vLLM bench serve", "no event has a choice")
    gap = (said[-1] - said[0]) / (len(said) - 1) if len(said) > 1 else None
    tpot = _per_token(said[-1] - said[0], stream.tokens, 1)
    return Row("vLLM bench serve", said[0], gap, tpot, said[-1], "the role's event is the first token")


def _llmperf(stream: _Stream) -> Row:
    """Text alone counts; ITL is (last - sent) / events, the empty ones, too, and the first token's time."""
    if any(not event.has_choice for event in stream.events):
        return _none("LLMPerf", "an event without a choice, as of usage, is an error to it")
    said = stream.instants(lambda event: event.content)
    if not said:
        return _none("LLMPerf", "reasoning and tool calls are not seen")
    itl = said[-1] / len(stream.events)
    return Row("LLMPerf", said[0], itl, None, stream.end_ms, "ITL includes TTFT; reasoning is not seen")


def _none(tool: str, why: str) -> Row:
    return Row(tool, None, None, None, None, why)


def _per_token(span_ms: float, tokens: int | None, less: int) -> float | None:
    if tokens is None or tokens <= less:
        return None
    return span_ms / (tokens - less)
