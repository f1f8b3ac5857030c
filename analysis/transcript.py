"""What did one engine answer, and when?  Text, token events and instants, whatever the protocol."""

from dataclasses import dataclass
from typing import Literal

from analysis.asked import Asked

TokenSource = Literal["usage", "token_ids", "logprobs", "tokenizer", "chunks"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as the engine spelled it; `arguments` is the JSON text, joined from its fragments."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token as an engine chose it, in nats, and the likeliest in its place with theirs, where told."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the `n` answers to a request. `finish_reason` is the engine's own word, None without one.

    `tokens` is how many the engine made for it, None where only all choices together were counted, or none.
    `token_ids` and `logprobs` are those of every token, None where an engine does not tell.
    """

    index: int
    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    tokens: int | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One event with a non-empty content, reasoning or tool-call delta of one choice.

    `tokens`: those made since the choice's event before, one held back included; None if nobody said.
    """

    at_ns: int
    tokens: int | None
    visible: bool
    choice: int = 0


@dataclass(frozen=True, slots=True)
class Content:
    """What a reader made of an answer's bytes.

    `role_ns` is the first event of any kind, `last_ns` the last byte. `completion_tokens` counts over all
    choices, as `token_source` says: the engine's usage, token ids or logprobs in the events, a
    tokenizer that counted the texts, or (a lower bound where several tokens come in one) the chunks that said
    something. `finished`: the engine said of
    everything it began how it ended. `error`: what the engine, or the parser, said went wrong. `opaque`:
    nobody here reads this protocol. `asked`: the form the request asked for, which no reader sees.
    """

    streamed: bool = False
    role_ns: int | None = None
    token_events: tuple[TokenEvent, ...] = ()
    usage_ns: int | None = None
    last_ns: int | None = None
    choices: tuple[Choice, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    token_source: TokenSource | None = None
    finished: bool = False
    error: str | None = None
    opaque: bool = False
    asked: Asked | None = None

    @property
    def said_nothing(self) -> bool:
        """No text, no reasoning, no tool call: nothing that a reader could see."""
        return not any(c.text or c.reasoning or c.tool_calls for c in self.choices)


@dataclass(frozen=True, slots=True)
class Transcript:
    """One answer with its instants (ns, one monotonic clock).

    `received_ns`: the client's request was read; `sent_ns`: this request was written; `head_ns`: the response
    head came; `end_ns`: the exchange was over, in the way `ending` says (complete, cut, refused, timeout,
    cancelled, malformed).
    """

    received_ns: int
    sent_ns: int
    head_ns: int | None
    end_ns: int
    status: int | None
    ending: str
    content: Content

    @property
    def first_token_ns(self) -> int | None:
        """The first non-empty content, reasoning or tool-call delta; None when no token came as an event."""
        events = self.content.token_events
        return events[0].at_ns if events else None

    @property
    def first_visible_ns(self) -> int | None:
        """The first token that is no reasoning."""
        return next((e.at_ns for e in self.content.token_events if e.visible), None)

    @property
    def last_token_ns(self) -> int | None:
        """The last token event; for an answer in one piece its last byte."""
        if self.content.streamed and not self.content.opaque:
            events = self.content.token_events
            return events[-1].at_ns if events else None
        return self.content.last_ns

    @property
    def truncated(self) -> bool:
        """The engine did not say how its answer ended, or the message stopped before its end."""
        return self.ending == "cut" or not self.content.finished

    @property
    def fault(self) -> str | None:
        """Why this answer counts as failed: a fixed phrase (never the engine's text), None if it does not."""
        if self.ending not in ("complete", "cut"):
            return self.ending
        if self.status is None:
            return "cut"
        if not 200 <= self.status < 300:
            return f"status {self.status}"
        if self.content.error is not None:
            return "error event" if self.content.streamed else "error body"
        if self.truncated:
            return "truncated"
        if self.content.said_nothing and not self.content.opaque:
            return "no token"
        return None
