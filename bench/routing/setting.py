"""What is held fixed in a run: engines, fleet, objectives.  Plain values, so that they name a run."""

from dataclasses import dataclass

from emulator.params import EngineParams

KV_TOKENS = 8192 * 16


@dataclass(frozen=True, slots=True)
class Setting:
    """The usual one is like a 70B model on four 80 GB GPUs, with some of the cache taken by other things."""

    engines: int = 8
    block_size: int = 16
    kv_tokens: int = KV_TOKENS
    host_tokens: int = 0  # what the host's memory holds of what was evicted
    load_tokens_per_s: float = 100_000.0
    prefill_tokens_per_s: float = 8_000.0
    base_ms: float = 20.0
    ms_per_seq: float = 0.1
    batched_tokens: int = 2048
    max_seqs: int = 256
    max_queued: int = 128
    speeds: tuple[float, ...] = ()  # of the engines, in turn; none: all 1
    ttft_s: float = 1.5  # objective: this, and twice the time that the whole prompt takes an idle engine
    tpot_ms: float = 100.0
    warm: float = 0.25  # this share of the time is not measured
    workers: int = 1

    def params(self, engine: int) -> EngineParams:
        return EngineParams(
            seed=engine,
            speed=self.speeds[engine % len(self.speeds)] if self.speeds else 1.0,
            base_ms=self.base_ms,
            ms_per_prefill_token=1e3 / self.prefill_tokens_per_s,
            ms_per_seq=self.ms_per_seq,
            jitter=0.0,
            hiccup_rate=0.0,
            max_num_seqs=self.max_seqs,
            max_num_batched_tokens=self.batched_tokens,
            max_model_len=self.kv_tokens // self.block_size * self.block_size,
            max_queued=self.max_queued,
            block_size=self.block_size,
            num_blocks=self.kv_tokens // self.block_size,
            host_blocks=self.host_tokens // self.block_size,
            ms_per_loaded_token=1e3 / self.load_tokens_per_s,
        )

    def ttft_objective_s(self, prompt_tokens: int) -> float:
        return self.ttft_s + 2.0 * prompt_tokens / self.prefill_tokens_per_s


OTHERS: dict[str, Setting] = {
    "usual": Setting(),
    "blocks-64": Setting(block_size=64),
    "small-cache": Setting(kv_tokens=KV_TOKENS // 4),
    "large-cache": Setting(kv_tokens=KV_TOKENS * 4),
    "slow-prefill": Setting(prefill_tokens_per_s=2_500.0, ttft_s=3.0, tpot_ms=250.0),
    "fast-prefill": Setting(prefill_tokens_per_s=30_000.0, ttft_s=0.75, tpot_ms=60.0, base_ms=10.0),
    "fleet-3": Setting(engines=3),
    "fleet-16": Setting(engines=16),
    "mixed-speeds": Setting(speeds=(1.0, 1.0, 0.5, 2.0)),
    "two-workers": Setting(workers=2),
    "host": Setting(kv_tokens=KV_TOKENS // 4, host_tokens=KV_TOKENS),
    "host-slow": Setting(kv_tokens=KV_TOKENS // 4, host_tokens=KV_TOKENS, load_tokens_per_s=12_000.0),
    "host-in-vain": Setting(kv_tokens=KV_TOKENS // 4, host_tokens=KV_TOKENS, load_tokens_per_s=8_000.0),
}
"""By name.  Nothing was tuned on any but the usual one.

Of the hosts' memory, loading takes a twelfth of computing, two thirds, and as long.
"""
