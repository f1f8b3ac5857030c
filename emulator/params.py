"""What can be set on an emulated engine: its speeds, its sizes, its words and its faults."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParams:
    """One engine.  The defaults resemble a small model on a small GPU."""

    model: str = field(default="emulated", metadata={"help": "served model name"})
    aliases: tuple[str, ...] = field(default=(), metadata={"help": "other names the model answers to"})
    seed: int = field(default=0, metadata={"help": "seed of timing jitter, sampling and faults"})
    model_seed: int = field(default=0, metadata={"help": "seed of the text: equal seeds are equal models"})

    speed: float = field(default=1.0, metadata={"help": "divides every step's duration: 2 is twice as fast"})
    slow: float = field(default=1.0, metadata={"help": "fault: multiplies every step's duration"})
    base_ms: float = field(default=6.0, metadata={"help": "a step's duration with an empty batch"})
    ms_per_prefill_token: float = field(default=0.02, metadata={"help": "added per uncached prompt token"})
    ms_per_seq: float = field(default=0.05, metadata={"help": "added per running sequence"})
    jitter: float = field(default=0.03, metadata={"help": "sigma of each step's log-normal jitter"})
    hiccup_rate: float = field(default=0.0005, metadata={"help": "share of steps that hiccup"})
    hiccup_ms: float = field(default=15.0, metadata={"help": "mean length of a hiccup"})
    max_lag_ms: float = field(
        default=50.0, metadata={"help": "how late the step clock may run before it resets"}
    )

    max_num_seqs: int = field(default=64, metadata={"help": "most sequences in a batch"})
    max_num_batched_tokens: int = field(default=2048, metadata={"help": "most tokens computed in a step"})
    max_model_len: int = field(default=16384, metadata={"help": "most tokens of prompt and output together"})
    max_queued: int = field(
        default=0, metadata={"help": "waiting requests beyond which to refuse; 0 = no limit"}
    )
    block_size: int = field(default=16, metadata={"help": "tokens in a KV-cache block"})
    num_blocks: int = field(default=8192, metadata={"help": "KV-cache blocks"})
    host_blocks: int = field(
        default=0, metadata={"help": "blocks in the host's memory, where evicted ones move; 0 = none"}
    )
    ms_per_loaded_token: float = field(
        default=0.002, metadata={"help": "added per prompt token that is loaded from the host's memory"}
    )
    prefix_caching: bool = field(default=True, metadata={"help": "keep and reuse the blocks of prefixes"})

    output_tokens: float = field(default=64.0, metadata={"help": "median natural length of an answer"})
    output_sigma: float = field(default=0.7, metadata={"help": "sigma of the log-normal length"})
    default_temperature: float = field(default=1.0, metadata={"help": "for requests that name none"})
    diverge_rate: float = field(
        default=0.0, metadata={"help": "share of prompts whose text departs from the model's"}
    )
    cached_tokens: bool = field(default=True, metadata={"help": "report prompt_tokens_details.cached_tokens"})

    max_logprobs: int = field(
        default=20, metadata={"help": "most alternatives told of each of a prompt's tokens; 0 = none are"}
    )
    trace_replay: bool = field(default=False, metadata={"help": "decode the tokens a request forces"})

    error_rate: float = field(
        default=0.0, metadata={"help": "fault: share of requests that fail with an error"}
    )
    refuse_rate: float = field(
        default=0.0, metadata={"help": "fault: share refused as if the queue were full"}
    )
    cut_rate: float = field(default=0.0, metadata={"help": "fault: share whose connection is cut mid-answer"})
    hang_rate: float = field(default=0.0, metadata={"help": "fault: share that never gets an answer"})
    start_delay_s: float = field(default=0.0, metadata={"help": "time after start during which all is 503"})

    handover: str = field(
        default="",
        metadata={"help": "KV from engine to engine: vllm, sglang-prefill or sglang-decode; empty = none"},
    )
    handover_wait_s: float = field(
        default=480.0,
        metadata={"help": "how long KV is kept, or waited for"},
    )

    api_key: str = field(default="", metadata={"help": "bearer token that /v1 asks for; empty = none"})
    keep_alive_s: float = field(default=5.0, metadata={"help": "idle connections are closed after this"})
    sse_keep_alive_s: float = field(
        default=0.0, metadata={"help": "comment lines on silent streams; 0 = off"}
    )
    kv_events_port: int | None = field(
        default=None, metadata={"help": "publish KV events here; 0 = any port"}
    )
    kv_events_topic: str = field(default="kv-events", metadata={"help": "topic of the KV events"})
    kv_events_form: str = field(
        default="vllm", metadata={"help": "how KV events are written: vllm, vllm-arrays or sglang"}
    )
    kv_events_to: str = field(
        default="", metadata={"help": "publish KV events by connecting there, such as tcp://10.0.0.2:5557"}
    )
    kv_events_loss: float = field(
        default=0.0, metadata={"help": "fault: share of KV event batches that are not sent, but for replays"}
    )

    def __post_init__(self) -> None:
        for name in (
            "speed",
            "slow",
            "block_size",
            "num_blocks",
            "max_num_seqs",
            "max_num_batched_tokens",
            "output_tokens",
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("host_blocks", "ms_per_loaded_token"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.kv_events_form not in ("vllm", "vllm-arrays", "sglang"):
            raise ValueError(
                f"kv_events_form must be vllm, vllm-arrays or sglang, got {self.kv_events_form!r}"
            )
        for name in (
            "diverge_rate",
            "error_rate",
            "refuse_rate",
            "cut_rate",
            "hang_rate",
            "hiccup_rate",
            "kv_events_loss",
        ):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in 0..1, got {getattr(self, name)}")
        if self.handover not in ("", "vllm", "sglang-prefill", "sglang-decode"):
            raise ValueError(f"handover must be vllm, sglang-prefill or sglang-decode, got {self.handover!r}")
        if self.max_model_len > self.num_blocks * self.block_size:
            raise ValueError(
                f"max_model_len={self.max_model_len} does not fit in the KV cache of "
                f"{self.num_blocks} x {self.block_size} tokens"
            )
