"""The words of routing: what was asked, what is known of an engine, what was decided."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request, as far as routing needs to see it.

    `chain[i]` names the prompt's canonical bytes up to `ends[i]`: two prompts share `chain[i]` exactly when
    the model, the salts and everything up to there are the same. `ends` rises strictly and counts the prompt
    itself (tools, documents, messages), not the model's name or the salts. An image counts as its digest.
    """

    model: str | None
    chain: tuple[int, ...]
    ends: tuple[int, ...]
    root: int
    """The conversation: the hash through the first user message. Without messages, of the whole prompt."""
    turns: int
    """Assistant messages so far; 0 is a conversation's first turn."""
    stream: bool
    max_tokens: int | None


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What was known of one engine at one moment. A snapshot, never live."""

    id: int
    inflight: int
    """Requests sent and not yet ended."""
    pending_bytes: int
    """Uncached prompt bytes (`Choice.uncached_bytes`) of requests that await their first token."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An engine, and the numbers that spoke for it. `cached_bytes + uncached_bytes` is the whole prompt."""

    engine: int
    why: str
    cached_bytes: int
    uncached_bytes: int
