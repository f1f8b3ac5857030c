"""The words of routing: what was asked, what is known of an engine, what was decided.

They are msgspec structs, not dataclasses: several are made for every request.
"""

from collections.abc import Sequence

from msgspec import Struct


class Prompt(Struct, frozen=True, gc=False):
    """One request, as far as routing needs to see it.

    `chain[i]` names the prompt's canonical bytes up to `ends[i]`: two prompts share `chain[i]` exactly when
    the model, the salts and everything up to there are the same. `ends` rises strictly and counts the prompt
    itself (tools, documents, messages), not the model's name or the salts. An image counts as its digest.
    """

    model: str | None
    chain: Sequence[int]
    ends: Sequence[int]
    root: int
    """The conversation: the hash through the first user message. Without messages, of the whole prompt."""
    turns: int
    """Assistant messages so far; 0 is a conversation's first turn."""
    stream: bool
    max_tokens: int | None


class EngineLoad(Struct, gc=False):
    """What is known of one engine at this moment. Its owner goes on changing it: not to be kept."""

    id: int
    inflight: int
    """Requests sent and not yet ended."""
    pending_bytes: int
    """Uncached prompt bytes (`Choice.uncached_bytes`) of requests that await their first token."""


class Choice(Struct, frozen=True, gc=False):
    """An engine, and the numbers that spoke for it. `cached_bytes + uncached_bytes` is the whole prompt.

    `inflight` and `pending_bytes` are the engine's load before this request; `cost_s` is the policy's own
    figure, 0 where it has none.
    """

    engine: int
    why: str
    cached_bytes: int
    uncached_bytes: int
    inflight: int = 0
    pending_bytes: int = 0
    cost_s: float = 0.0
