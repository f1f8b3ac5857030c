"""What does an engine count of its own work?  The metrics page of each kind, read for a few names.

Ranks of data parallelism have a series each: counts are added up, shares averaged.  Ranks of tensor and
pipeline parallelism say the same thing once more.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_LINE: Final = re.compile(
    rb"^(vllm|sglang|llamacpp|trtllm|tgi)[:_]"
    rb"(num_requests_running|num_requests_waiting|kv_cache_usage_perc|gpu_cache_usage_perc|num_preemptions_total"
    rb"|iteration_tokens_total_count|prompt_tokens_total|prompt_tokens_cached_total|generation_tokens_total"
    rb"|estimated_flops_per_gpu_total|estimated_read_bytes_per_gpu_total|estimated_write_bytes_per_gpu_total"
    rb"|num_running_reqs|num_queue_reqs|token_usage|num_retracted_reqs|cuda_graph_passes_total"
    rb"|realtime_tokens_total"
    rb"|requests_processing|requests_deferred|tokens_predicted_total|n_decode_total"
    rb"|batch_current_size|queue_size|kv_cache_utilization)"
    rb"(?:\{(.*)\})? ([0-9.eE+-]+)$",
    re.MULTILINE,
)
_RANK: Final = re.compile(rb'(?:^|,)(?:engine|dp_rank)="([^"]*)"')
_PART: Final = re.compile(rb'(?:^|,)(?:mode|is_streaming)="([^"]*)"')

_Series = Mapping[bytes, Mapping[tuple[bytes, bytes], float]]


@dataclass(frozen=True, slots=True)
class Counted:
    """Gauges of now, and counters since the engine began.  None: it does not say.

    `kind` is what it speaks.  `computed_tokens` are the prompts' that were not found in a cache,
    `retracted` a gauge of SGLang's; `flops` and `bytes` an estimate of vLLM's (--enable-mfu-metrics), for
    each GPU.
    """

    kind: str | None = None
    running: float | None = None
    queued: float | None = None
    kv_usage: float | None = None
    preemptions: float | None = None
    retracted: float | None = None
    steps: float | None = None
    computed_tokens: float | None = None
    generated_tokens: float | None = None
    flops: float | None = None
    bytes: float | None = None

    def to_map(self) -> dict[str, Any]:
        """As it is sent and logged: what is not known is left out."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in fields.items() if value is not None}


NOTHING: Final = Counted()


def counted(page: bytes) -> Counted:
    """What a metrics page says; `NOTHING` of one that says nothing."""
    kind: str | None = None
    found: dict[bytes, dict[tuple[bytes, bytes], float]] = {}
    for prefix, name, labels, number in _LINE.findall(page):
        try:
            value = float(number)
        except ValueError:
            continue
        if not 0.0 <= value < 1e30:
            continue
        kind = kind or prefix.decode()
        rank, part = _RANK.search(labels), _PART.search(labels)
        key = (rank[1] if rank is not None else b"", part[1] if part is not None else b"")
        series = found.setdefault(name, {})
        series[key] = max(series.get(key, 0.0), value)
    if kind is None:
        return NOTHING
    usage = _values(
        found, b"kv_cache_usage_perc", b"gpu_cache_usage_perc", b"token_usage", b"kv_cache_utilization"
    )
    return Counted(
        kind=kind,
        running=_sum(
            found, b"num_requests_running", b"num_running_reqs", b"requests_processing", b"batch_current_size"
        ),
        queued=_sum(found, b"num_requests_waiting", b"num_queue_reqs", b"requests_deferred", b"queue_size"),
        kv_usage=min(1.0, sum(usage) / len(usage)) if usage else None,
        preemptions=_sum(found, b"num_preemptions_total"),
        retracted=_sum(found, b"num_retracted_reqs"),
        steps=_sum(found, b"iteration_tokens_total_count", b"cuda_graph_passes_total", b"n_decode_total"),
        computed_tokens=_computed(kind, found),
        generated_tokens=_part(found, b"decode")
        or _sum(found, b"generation_tokens_total", b"tokens_predicted_total"),
        flops=_sum(found, b"estimated_flops_per_gpu_total") or None,  # 0: not switched on
        bytes=_bytes(found),
    )


def _values(found: _Series, *names: bytes) -> list[float]:
    """Each series' value, under the first of these names that is there."""
    return next((list(found[name].values()) for name in names if name in found), [])


def _sum(found: _Series, *names: bytes) -> float | None:
    values = _values(found, *names)
    return sum(values) if values else None


def _part(found: _Series, mode: bytes) -> float | None:
    """SGLang's tokens of one mode."""
    values = [value for (_, part), value in found.get(b"realtime_tokens_total", {}).items() if part == mode]
    return sum(values) if values else None


def _computed(kind: str, found: _Series) -> float | None:
    if (computed := _part(found, b"prefill_compute")) is not None:
        return computed
    prompt = _sum(found, b"prompt_tokens_total")
    if prompt is None or kind != "vllm":
        return prompt if kind == "llamacpp" else None  # llama.cpp counts what it computes, SGLang all
    return max(0.0, prompt - (_sum(found, b"prompt_tokens_cached_total") or 0.0))


def _bytes(found: _Series) -> float | None:
    read = _sum(found, b"estimated_read_bytes_per_gpu_total")
    write = _sum(found, b"estimated_write_bytes_per_gpu_total")
    return None if read is None or write is None else (read + write) or None
