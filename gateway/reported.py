"""What does an engine say of its load in its metrics?  The text of each kind, read for a few names.

Ranks of data parallelism have a series each: counts are added up, shares averaged.  Ranks of tensor and
pipeline parallelism say the same thing once more.
"""

import re
from dataclasses import dataclass
from typing import Final

from routing.types import EngineLoad

_LINE: Final = re.compile(
    rb"^(?:vllm|sglang|llamacpp|trtllm|tgi)[:_]"
    rb"(num_requests_running|num_requests_waiting|kv_cache_usage_perc|gpu_cache_usage_perc|cache_config_info"
    rb"|num_running_reqs|num_queue_reqs|token_usage|max_total_num_tokens|page_size"
    rb"|requests_processing|requests_deferred|batch_current_size|queue_size"
    rb"|kv_cache_utilization|kv_cache_tokens_per_block|kv_cache_max_blocks)"
    rb"(?:\{(.*)\})? ([0-9.eE+-]+)$",
    re.MULTILINE,
)
_RANK: Final = re.compile(rb'(?:^|,)(?:engine|dp_rank)="([^"]*)"')
_BLOCK: Final = re.compile(rb'(?:^|,)block_size="(\d+)"')
_BLOCKS: Final = re.compile(rb'(?:^|,)num_gpu_blocks="(\d+)"')
# What each means: names of several engines, one of which speaks.
_RUNNING: Final = (
    b"num_requests_running",
    b"num_running_reqs",
    b"requests_processing",
    b"batch_current_size",
)
_QUEUED: Final = (b"num_requests_waiting", b"num_queue_reqs", b"requests_deferred", b"queue_size")
_USAGE: Final = (b"kv_cache_usage_perc", b"gpu_cache_usage_perc", b"token_usage", b"kv_cache_utilization")
_BLOCK_TOKENS: Final = (b"page_size", b"kv_cache_tokens_per_block")


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
    found: dict[bytes, dict[bytes, float]] = {}
    blocks: dict[bytes, int] = {}
    block_tokens = 0
    for name, labels, number in _LINE.findall(text):
        rank = _RANK.search(labels)
        key = rank[1] if rank is not None else b""
        if name == b"cache_config_info":
            size, count = _BLOCK.search(labels), _BLOCKS.search(labels)
            if size is not None and count is not None:
                block_tokens, blocks[key] = int(size[1]), int(count[1])
            continue
        try:
            value = float(number)
        except ValueError:
            continue
        if 0.0 <= value < 1e15:
            ranks = found.setdefault(name, {})
            ranks[key] = max(ranks.get(key, 0.0), value)
    running, queued, usage, sizes = (
        _of(found, names) for names in (_RUNNING, _QUEUED, _USAGE, _BLOCK_TOKENS)
    )
    if sizes:
        block_tokens = int(max(sizes))
    tokens = sum(_of(found, (b"max_total_num_tokens",)), 0.0)
    if not tokens:
        tokens = block_tokens * (
            float(sum(blocks.values())) or sum(_of(found, (b"kv_cache_max_blocks",)), 0.0)
        )
    return Reported(
        int(sum(running)) if running else None,
        int(sum(queued)) if queued else None,
        min(1.0, sum(usage) / len(usage)) if usage else None,
        int(tokens) or None,
        block_tokens or None,
    )


def _of(found: dict[bytes, dict[bytes, float]], names: tuple[bytes, ...]) -> list[float]:
    """Each rank's value, under the first of these names that is there."""
    return next((list(found[name].values()) for name in names if name in found), [])


def take_in(load: EngineLoad, said: Reported) -> None:
    """Set what routing sees of an engine.  Its sizes stay known when it says nothing of them."""
    load.running, load.queued, load.kv_usage = said.running, said.queued, said.kv_usage
    load.reported_bytes = load.context_bytes
    load.kv_tokens = said.kv_tokens or load.kv_tokens
    load.block_tokens = said.block_tokens or load.block_tokens
