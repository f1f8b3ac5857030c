"""What does an engine's metrics page say?  The series that we use, by their name without the engine's prefix.

Ranks of data parallelism have a series each: counts are added up, shares averaged.  Ranks of tensor and
pipeline parallelism say the same thing once more.  What is read is bounded: it is read beside requests.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

_LINE: Final = re.compile(
    rb"^(vllm|sglang|llamacpp|trtllm|tgi)[:_]"
    rb"(num_requests_running|num_requests_waiting|kv_cache_usage_perc|gpu_cache_usage_perc|cache_config_info"
    rb"|num_preemptions_total|iteration_tokens_total_count|prompt_tokens_total|prompt_tokens_cached_total"
    rb"|generation_tokens_total|estimated_flops_per_gpu_total|estimated_read_bytes_per_gpu_total"
    rb"|estimated_write_bytes_per_gpu_total"
    rb"|num_running_reqs|num_queue_reqs|token_usage|max_total_num_tokens|page_size|num_retracted_reqs"
    rb"|cuda_graph_passes_total|realtime_tokens_total"
    rb"|requests_processing|requests_deferred|tokens_predicted_total|n_decode_total"
    rb"|batch_current_size|queue_size"
    rb"|kv_cache_utilization|kv_cache_tokens_per_block|kv_cache_max_blocks)"
    rb"(?:\{(.{0,8192})\})? ([0-9.eE+-]+)$",
    re.MULTILINE,
)
_RANK: Final = (b"engine", b"dp_rank")
_PART: Final = (b"mode", b"is_streaming")
_MOST_SERIES: Final = 4096  # of those that we use: 64 ranks have fewer
_INFO: Final = b"cache_config_info"  # says what it says in its labels
# What each means: names of several engines, one of which speaks.
_RUNNING: Final = (
    b"num_requests_running",
    b"num_running_reqs",
    b"requests_processing",
    b"batch_current_size",
)
_QUEUED: Final = (b"num_requests_waiting", b"num_queue_reqs", b"requests_deferred", b"queue_size")
_USAGE: Final = (b"kv_cache_usage_perc", b"gpu_cache_usage_perc", b"token_usage", b"kv_cache_utilization")


@dataclass(frozen=True, slots=True)
class Series:
    """What was found on a page.  `kind` is what the engine speaks; None: the page says nothing."""

    kind: str | None
    by_name: Mapping[bytes, Mapping[tuple[bytes, bytes], float]]
    """Values by name, and by rank and part."""
    cache_config: Mapping[bytes, bytes]
    """vLLM's labels that tell of its KV cache, by rank."""

    @property
    def running(self) -> float | None:
        """Requests that are computed now."""
        return self.total(*_RUNNING)

    @property
    def queued(self) -> float | None:
        """Requests that wait in the engine."""
        return self.total(*_QUEUED)

    @property
    def kv_usage(self) -> float | None:
        """The share of the KV cache that is in use, 0 to 1."""
        shares = self.values(*_USAGE)
        return min(1.0, sum(shares) / len(shares)) if shares else None

    def values(self, *names: bytes) -> list[float]:
        """Each series' value, under the first of these names that is there."""
        return next((list(self.by_name[name].values()) for name in names if name in self.by_name), [])

    def total(self, *names: bytes) -> float | None:
        """Their sum; None: it does not say."""
        values = self.values(*names)
        return sum(values) if values else None

    def part(self, name: bytes, part: bytes) -> float | None:
        """The sum of those of one part: SGLang tells modes apart."""
        values = [value for (_, of), value in self.by_name.get(name, {}).items() if of == part]
        return sum(values) if values else None


def series(page: bytes, below: float) -> Series:
    """Read a metrics page.  What is negative, not finite or not `below` that is no measurement."""
    kind: str | None = None
    found: dict[bytes, dict[tuple[bytes, bytes], float]] = {}
    cache_config: dict[bytes, bytes] = {}
    for line in islice(_LINE.finditer(page), _MOST_SERIES):
        prefix, name, labels, number = line.groups(b"")
        try:
            value = float(number)
        except ValueError:
            continue
        if not 0.0 <= value < below:
            continue
        kind = kind or prefix.decode()
        key = (label(labels, *_RANK) or b"", label(labels, *_PART) or b"")
        if name == _INFO:
            cache_config[key[0]] = labels
            continue
        values = found.setdefault(name, {})
        values[key] = max(values.get(key, 0.0), value)
    return Series(kind, found, cache_config)


def label(labels: bytes, *names: bytes) -> bytes | None:
    """The value of the first of these labels that is there.

    By `find`: a pattern that may begin at each comma takes a second for some megabytes of them.
    """
    for name in names:
        sought = name + b'="'
        at = labels.find(sought)
        while at > 0 and labels[at - 1 : at] != b",":
            at = labels.find(sought, at + 1)
        if at >= 0 and (end := labels.find(b'"', at + len(sought))) >= 0:
            return labels[at + len(sought) : end]
    return None
