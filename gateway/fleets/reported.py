"""What does an engine say of its load and its KV cache in its metrics?"""

from dataclasses import dataclass
from typing import Final

from routing.types import EngineLoad
from wire.series import label, series

_BELOW: Final = 1e15
_MOST_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class Reported:
    """None: it does not say."""

    running: int | None = None
    queued: int | None = None
    kv_usage: float | None = None
    kv_tokens: int | None = None
    block_tokens: int | None = None


NOTHING: Final = Reported()


def reported(text: bytes) -> Reported:
    """What a metrics page says; `NOTHING` of one that says nothing."""
    said = series(text, _BELOW)
    blocks = block_tokens = 0
    for labels in said.cache_config.values():
        size, count = _number(label(labels, b"block_size")), _number(label(labels, b"num_gpu_blocks"))
        if size is not None and count is not None:
            block_tokens, blocks = size, blocks + count
    if sizes := said.values(b"page_size", b"kv_cache_tokens_per_block"):
        block_tokens = int(max(sizes))
    tokens = said.total(b"max_total_num_tokens")
    if not tokens:
        tokens = block_tokens * (blocks or said.total(b"kv_cache_max_blocks") or 0)
    return Reported(
        None if said.running is None else int(said.running),
        None if said.queued is None else int(said.queued),
        said.kv_usage,
        int(tokens) or None,
        block_tokens or None,
    )


def _number(text: bytes | None) -> int | None:
    """None of what is no number, or of more digits than anything here has."""
    return int(text) if text is not None and text.isdigit() and len(text) <= _MOST_DIGITS else None


def take_in(load: EngineLoad, said: Reported) -> None:
    """Set what routing sees of an engine.  Its sizes stay known when it says nothing of them."""
    load.running, load.queued, load.kv_usage = said.running, said.queued, said.kv_usage
    load.reported_bytes = load.context_bytes
    load.kv_tokens = said.kv_tokens or load.kv_tokens
    load.block_tokens = said.block_tokens or load.block_tokens
