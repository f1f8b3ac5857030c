"""What the engine counts, in vLLM's metric names and Prometheus' text format.

Plain integers, because the counting happens once per token.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence

_TTFT = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
    160.0,
    640.0,
    2560.0,
)
_ITL = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_REQUEST = (
    0.3,
    0.5,
    0.8,
    1.0,
    1.5,
    2.0,
    2.5,
    5.0,
    10.0,
    15.0,
    20.0,
    30.0,
    40.0,
    50.0,
    60.0,
    120.0,
    240.0,
    480.0,
    960.0,
    1920.0,
    7680.0,
)
_TOKENS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0)
_ITERATION = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)


class Histogram:
    """Counts per bucket of upper bounds `bounds`."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value, in the histogram's unit."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class EngineMetrics:
    """All counters of one engine; `text` renders them with the gauges of the moment."""

    def __init__(self, model: str) -> None:
        self._labels = f'engine="0",model_name="{model}"'
        self._model = model
        self.prompt_tokens = 0
        self.prompt_tokens_cached = 0
        self.prompt_tokens_loaded = 0
        self.generation_tokens = 0
        self.rejections = 0
        self.success: Counter[str] = Counter({"stop": 0, "length": 0, "abort": 0, "error": 0})
        self.ttft = Histogram(_TTFT)
        self.itl = Histogram(_ITL)
        self.tpot = Histogram(_ITL)
        self.e2e = Histogram(_REQUEST)
        self.queue = Histogram(_REQUEST)
        self.prefill = Histogram(_REQUEST)
        self.decode = Histogram(_REQUEST)
        self.inference = Histogram(_REQUEST)
        self.prompt_lengths = Histogram(_TOKENS)
        self.output_lengths = Histogram(_TOKENS)
        self.iteration_tokens = Histogram(_ITERATION)

    def text(
        self, *, running: int, waiting: int, usage: float, queried: int, hits: int, loaded: int,
        preemptions: int, cache_config: Mapping[str, str],
    ) -> str:  # fmt: skip
        """The body of /metrics."""
        lines: list[str] = []
        labels = self._labels

        def sample(name: str, kind: str, meaning: str, values: Mapping[str, float]) -> None:
            lines.append(f"# HELP vllm:{name} {meaning}")
            lines.append(f"# TYPE vllm:{name} {kind}")
            lines.extend(f"vllm:{name}{{{extra}}} {float(value)}" for extra, value in values.items())

        def one(name: str, kind: str, meaning: str, value: float) -> None:
            sample(name, kind, meaning, {labels: value})

        one("num_requests_running", "gauge", "Number of requests in model execution batches.", running)
        one("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", waiting)
        by_reason = {f'{labels},reason="{reason}"': 0.0 for reason in ("capacity", "deferred")}
        by_reason[f'{labels},reason="capacity"'] = waiting
        sample("num_requests_waiting_by_reason", "gauge", "Number of waiting requests by reason.", by_reason)
        one("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", usage)
        one("prefix_cache_queries_total", "counter", "Prefix cache queries, in tokens.", queried)
        one("prefix_cache_hits_total", "counter", "Prefix cache hits, in tokens.", hits)
        # What is asked of the tier below is what was not found above it.
        one("external_prefix_cache_queries_total", "counter", "External queries, in tokens.", queried - hits)
        one("external_prefix_cache_hits_total", "counter", "External hits, in tokens.", loaded)
        one(
            "num_preemptions_total",
            "counter",
            "Cumulative number of preemption from the engine.",
            preemptions,
        )
        one("prompt_tokens_total", "counter", "Number of prefill tokens processed.", self.prompt_tokens)
        sources = {
            f'{labels},source="local_compute"': self.prompt_tokens - self.prompt_tokens_cached,
            f'{labels},source="local_cache_hit"': self.prompt_tokens_cached - self.prompt_tokens_loaded,
            f'{labels},source="external_kv_transfer"': self.prompt_tokens_loaded,
        }
        sample("prompt_tokens_by_source_total", "counter", "Number of prompt tokens by source.", sources)
        one(
            "prompt_tokens_cached_total",
            "counter",
            "Number of cached prompt tokens.",
            self.prompt_tokens_cached,
        )
        one(
            "generation_tokens_total",
            "counter",
            "Number of generation tokens processed.",
            self.generation_tokens,
        )
        done = {
            f'engine="0",finished_reason="{why}",model_name="{self._model}"': n
            for why, n in self.success.items()
        }
        sample("request_success_total", "counter", "Count of successfully processed requests.", done)
        refused = {f'model_name="{self._model}",reason="max_num_queued_reqs"': self.rejections}
        sample("admission_rejections_total", "counter", "Number of admission attempts rejected.", refused)
        for name, histogram, meaning in (
            ("request_prompt_tokens", self.prompt_lengths, "Number of prefill tokens processed."),
            ("request_generation_tokens", self.output_lengths, "Number of generation tokens processed."),
            (
                "iteration_tokens_total",
                self.iteration_tokens,
                "Histogram of number of tokens per engine_step.",
            ),
            ("time_to_first_token_seconds", self.ttft, "Histogram of time to first token in seconds."),
            ("inter_token_latency_seconds", self.itl, "Histogram of inter-token latency in seconds."),
            (
                "request_time_per_output_token_seconds",
                self.tpot,
                "Histogram of time_per_output_token_seconds.",
            ),
            ("e2e_request_latency_seconds", self.e2e, "Histogram of e2e request latency in seconds."),
            ("request_queue_time_seconds", self.queue, "Histogram of time spent in WAITING phase."),
            ("request_inference_time_seconds", self.inference, "Histogram of time spent in RUNNING phase."),
            ("request_prefill_time_seconds", self.prefill, "Histogram of time spent in PREFILL phase."),
            ("request_decode_time_seconds", self.decode, "Histogram of time spent in DECODE phase."),
        ):
            lines.append(f"# HELP vllm:{name} {meaning}")
            lines.append(f"# TYPE vllm:{name} histogram")
            seen = 0
            for bound, count in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
                seen += count
                lines.append(
                    f'vllm:{name}_bucket{{engine="0",le="{bound}",model_name="{self._model}"}} {float(seen)}'
                )
            lines.append(f"vllm:{name}_count{{{labels}}} {float(seen)}")
            lines.append(f"vllm:{name}_sum{{{labels}}} {histogram.total}")
        config = ",".join(
            f'{key}="{value}"' for key, value in sorted({**cache_config, "engine": "0"}.items())
        )
        sample("cache_config_info", "gauge", "Information of the LLMEngine CacheConfig", {config: 1})
        return "\n".join(lines) + "\n"
