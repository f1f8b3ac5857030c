"""What could be tried where an engine is limited so?  A flag of each kind of engine, why, and its effect.

Each is a candidate to be measured, not a promise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from analysis.why.rules import Cause


@dataclass(frozen=True, slots=True)
class Try:
    """One change: a flag (or a setting), why it bears on the cause, what may come of it."""

    flag: str
    why: str
    effect: str


_FP8_KV = "a token's keys and values take half the room"
_FP8_KV_EFFECT = "up to twice as many tokens fit, fewer preemptions; answers may differ: see the outputs"
_ROOM = "what is left of the GPU's memory holds keys and values"
_ROOM_EFFECT = "more requests at a time; too high, and the engine runs out of memory"
_SEQS = "requests wait for a place in the batch while the KV cache has room"
_SEQS_EFFECT = "less waiting (TTFT); each step gets longer (TPOT)"
_STARVED = "requests wait while nothing runs: its scheduler, a grammar or a transfer of KV keeps them"
_ADAPTERS = "a request whose adapter has no place waits until another adapter's have ended"
_ADMITTED = "less waiting (TTFT), if that is what keeps them; the engine's log may tell what does"
_FP8 = "weights of 8 bits are read in half the time, and multiplied at twice the rate where the GPU can"
_FP8_EFFECT = "TPOT falls, by half at most; answers may differ: see the outputs"
_SPEC = "several tokens for one reading of the weights"
_SPEC_EFFECT = "TPOT falls where drafts are accepted; under high load it may rise"
_GRAPHS = "the host launches a step's kernels at once, not one by one"
_GRAPHS_EFFECT = "TPOT falls by the GPU's idle time between steps, at most"
_SPLIT = "more GPUs share a step's arithmetic and memory"
_SPLIT_EFFECT = "TTFT and TPOT fall, by less than the GPUs grow; the cost of a token may rise"
_CHUNK = "prompts take a smaller part of each step"
_CHUNK_EFFECT = "TPOT gets steadier, TTFT longer"

TRIES: Final[Mapping[Cause, Mapping[str, tuple[Try, ...]]]] = {
    "kv_capacity": {
        "vllm": (
            Try("--kv-cache-dtype fp8", _FP8_KV, _FP8_KV_EFFECT),
            Try("--gpu-memory-utilization 0.95", _ROOM, _ROOM_EFFECT),
        ),
        "sglang": (
            Try("--kv-cache-dtype fp8_e5m2", _FP8_KV, _FP8_KV_EFFECT),
            Try("--mem-fraction-static, higher", _ROOM, _ROOM_EFFECT),
        ),
        "llamacpp": (Try("--cache-type-k q8_0 --cache-type-v q8_0", _FP8_KV, _FP8_KV_EFFECT),),
        "trtllm": (Try("kv_cache_config.free_gpu_memory_fraction, higher", _ROOM, _ROOM_EFFECT),),
        "": (Try("KV cache of 8 bits, or more memory for it", _FP8_KV, _FP8_KV_EFFECT),),
    },
    "scheduling": {
        "vllm": (Try("--max-num-seqs, higher", _SEQS, _SEQS_EFFECT),),
        "sglang": (Try("--max-running-requests, higher", _SEQS, _SEQS_EFFECT),),
        "llamacpp": (Try("--parallel, higher", _SEQS, _SEQS_EFFECT),),
        "trtllm": (Try("max_batch_size, higher", _SEQS, _SEQS_EFFECT),),
        "": (Try("a larger batch", _SEQS, _SEQS_EFFECT),),
    },
    "stalled": {
        "vllm": (
            Try("more processor cores for the engine", _STARVED, _ADMITTED),
            Try("--max-loras, higher, where requests name adapters", _ADAPTERS, _ADMITTED),
        ),
        "sglang": (
            Try("more processor cores for the engine", _STARVED, _ADMITTED),
            Try("--max-loras-per-batch, higher, where requests name adapters", _ADAPTERS, _ADMITTED),
        ),
        "": (Try("more processor cores for the engine", _STARVED, _ADMITTED),),
    },
    "cpu": {
        "vllm": (
            Try("without --enforce-eager", _GRAPHS, _GRAPHS_EFFECT),
            Try("--async-scheduling", "the next step is planned while this one runs", _GRAPHS_EFFECT),
        ),
        "sglang": (Try("without --disable-cuda-graph", _GRAPHS, _GRAPHS_EFFECT),),
        "": (Try("CUDA graphs, or more processor cores", _GRAPHS, _GRAPHS_EFFECT),),
    },
    "memory_bandwidth": {
        "vllm": (
            Try("--quantization fp8", _FP8, _FP8_EFFECT),
            Try("--speculative-config, such as an n-gram's", _SPEC, _SPEC_EFFECT),
        ),
        "sglang": (
            Try("--quantization fp8", _FP8, _FP8_EFFECT),
            Try("--speculative-algorithm", _SPEC, _SPEC_EFFECT),
        ),
        "llamacpp": (Try("a model of fewer bits", _FP8, _FP8_EFFECT),),
        "": (Try("weights of 8 bits, or speculation", _FP8, _FP8_EFFECT),),
    },
    "compute": {
        "vllm": (
            Try(
                "--quantization fp8", _FP8, "TTFT falls, by half at most; answers may differ: see the outputs"
            ),
            Try("--max-num-batched-tokens, lower", _CHUNK, _CHUNK_EFFECT),
            Try("--tensor-parallel-size, higher", _SPLIT, _SPLIT_EFFECT),
        ),
        "sglang": (
            Try("--chunked-prefill-size, lower", _CHUNK, _CHUNK_EFFECT),
            Try("--tp-size, higher", _SPLIT, _SPLIT_EFFECT),
        ),
        "": (Try("weights of 8 bits, or more GPUs", _SPLIT, _SPLIT_EFFECT),),
    },
    "network": {
        "": (
            Try(
                "the gateway nearer to the engine",
                "requests and answers take long on the way, or wait at the engine's front door",
                "TTFT and E2E fall by the way's share; no flag of the engine's changes it",
            ),
        ),
    },
    "client": {
        "": (
            Try(
                "a core of its own for the shadow process, or a lower sample.rate",
                "it reads answers late",
                "figures become the engine's and not the shadow's; no flag of the engine's changes it",
            ),
        ),
    },
    "idle": {
        "": (
            Try(
                "a higher sample.rate",
                "it has little to do, and what would limit it under load does not show",
                "another diagnosis, at a load worth one",
            ),
        ),
    },
}


def tries(cause: Cause | None, kind: str | None) -> tuple[Try, ...]:
    """What to try, nothing where no cause is known; in an engine's own flags where its kind is."""
    if cause is None:
        return ()
    known = TRIES.get(cause, {})
    return known.get(kind or "", known.get("", ()))
