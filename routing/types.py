"""The words of routing: what was asked, what is known of an engine, what was decided.

What is made for every request is a msgspec struct, far cheaper to make than a dataclass.
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


class EngineLoad:
    """What is known of one engine at this moment. Its owner goes on changing it: not to be kept.

    `inflight`: requests sent and not yet ended. `pending_bytes`: uncached prompt bytes
    (`Choice.uncached_bytes`) of requests that await their first token.
    """

    __slots__ = ("id", "inflight", "pending_bytes")

    def __init__(self, id: int, inflight: int, pending_bytes: int) -> None:
        self.id = id
        self.inflight = inflight
        self.pending_bytes = pending_bytes

    def __repr__(self) -> str:
        return f"EngineLoad({self.id}, {self.inflight}, {self.pending_bytes})"


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
