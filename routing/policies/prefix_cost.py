"""The engine where this request costs the least time: a held prefix saves prefill, a busy engine costs more.

    cost_s = (pending_bytes + uncached_bytes) / prefill_bytes_per_s + inflight * decode_s_per_request

The first term is the time to the first token: prompts already waiting there, then what of this one must be
computed. The second is what a fuller batch adds to its decoding. There is no threshold and no switch between
"cache" and "balance" modes: a hot prefix spreads as soon as waiting where it is held costs more than
computing it once more elsewhere, and one busy engine only makes itself dearer.

The ratio of the two parameters is what matters: by default one request in flight weighs as much as
40,000 * 0.05 = 2,000 bytes (about 500 tokens) of prefill.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from random import Random

from routing.policy import Policy, chosen
from routing.types import Choice, EngineLoad, Prompt


@dataclass(frozen=True, slots=True)
class Params:
    """`ValueError` when a rate is not above 0 or a cost is below 0."""

    prefill_bytes_per_s: float = 40_000.0
    """How fast an engine computes a prompt: about 10,000 tokens/s of 4 bytes, a 70B model on four H100."""
    decode_s_per_request: float = 0.05
    """What one more request in flight adds to this one: about 0.2 ms a token over 250 tokens."""

    def __post_init__(self) -> None:
        if not (isfinite(self.prefill_bytes_per_s) and self.prefill_bytes_per_s > 0):
            raise ValueError(f"prefill_bytes_per_s must be above 0, not {self.prefill_bytes_per_s}")
        if not (isfinite(self.decode_s_per_request) and self.decode_s_per_request >= 0):
            raise ValueError(f"decode_s_per_request must be 0 or more, not {self.decode_s_per_request}")


class PrefixCost:
    idle_are_alike = True

    def __init__(self, params: Params) -> None:
        self._s_per_byte = 1.0 / params.prefill_bytes_per_s
        self._s_per_request = params.decode_s_per_request

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        total = prompt.ends[-1] if prompt.ends else 0
        s_per_byte, s_per_request = self._s_per_byte, self._s_per_request
        least, equal = inf, list[EngineLoad]()
        for engine in engines:
            uncached = total - cached.get(engine.id, 0)
            if uncached < 0:
                uncached = 0
            cost = (engine.pending_bytes + uncached) * s_per_byte + engine.inflight * s_per_request
            if cost < least:
                least, equal = cost, [engine]
            elif cost == least:
                equal.append(engine)
        engine = equal[0] if len(equal) == 1 else equal[int(rng.random() * len(equal))]
        return chosen(engine, prompt, cached, "costs least", least, len(equal))


def build(params: Params) -> Policy:
    return PrefixCost(params)
