"""What does an engine count of its own work?  Series of its metrics page, by one name for all kinds."""

from dataclasses import dataclass
from typing import Any, Final

from wire.series import Series, series

_BELOW: Final = 1e30  # flops are many


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
    said = series(page, _BELOW)
    if said.kind is None:
        return NOTHING
    return Counted(
        kind=said.kind,
        running=said.running,
        queued=said.queued,
        kv_usage=said.kv_usage,
        preemptions=said.total(b"num_preemptions_total"),
        retracted=said.total(b"num_retracted_reqs"),
        steps=said.total(b"iteration_tokens_total_count", b"cuda_graph_passes_total", b"n_decode_total"),
        computed_tokens=_computed(said),
        generated_tokens=said.part(b"realtime_tokens_total", b"decode")
        or said.total(b"generation_tokens_total", b"tokens_predicted_total"),
        flops=said.total(b"estimated_flops_per_gpu_total") or None,  # 0: not switched on
        bytes=_bytes(said),
    )


def _computed(said: Series) -> float | None:
    if (computed := said.part(b"realtime_tokens_total", b"prefill_compute")) is not None:
        return computed
    prompt = said.total(b"prompt_tokens_total")
    if prompt is None or said.kind != "vllm":
        return prompt if said.kind == "llamacpp" else None  # llama.cpp counts what it computes, SGLang all
    return max(0.0, prompt - (said.total(b"prompt_tokens_cached_total") or 0.0))


def _bytes(said: Series) -> float | None:
    read = said.total(b"estimated_read_bytes_per_gpu_total")
    write = said.total(b"estimated_write_bytes_per_gpu_total")
    return None if read is None or write is None else (read + write) or None
