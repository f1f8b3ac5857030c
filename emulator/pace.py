"""How long a step takes."""

import math
from random import Random

from emulator.params import EngineParams


class Pace:
    """duration = (base + computed prompt tokens x a + loaded ones x l + sequences x b) x jitter + hiccup,
    all x slow / speed."""

    def __init__(self, params: EngineParams, rng: Random) -> None:
        self._base_ms = params.base_ms
        self._prefill_ms = params.ms_per_prefill_token
        self._load_ms = params.ms_per_loaded_token
        self._seq_ms = params.ms_per_seq
        self._sigma = params.jitter
        self._mean_shift = -params.jitter * params.jitter / 2  # the jitter's mean is 1
        self._hiccup_rate = params.hiccup_rate
        self._hiccup_ms = params.hiccup_ms
        self._factor_ns = params.slow / params.speed * 1e6
        self._rng = rng

    def duration_ns(self, prefill_tokens: int, sequences: int, loaded_tokens: int = 0) -> int:
        """Duration of a step that computes `prefill_tokens`, loads others and serves `sequences`."""
        ms = self._base_ms + self._prefill_ms * prefill_tokens + self._seq_ms * sequences
        ms += self._load_ms * loaded_tokens
        ms *= math.exp(self._mean_shift + self._sigma * self._rng.gauss(0.0, 1.0))
        if self._rng.random() < self._hiccup_rate:
            ms += self._rng.expovariate(1.0 / self._hiccup_ms) if self._hiccup_ms > 0 else 0.0
        return int(ms * self._factor_ns)
