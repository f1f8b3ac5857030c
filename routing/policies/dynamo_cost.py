"""The engine with the fewest blocks to compute and to decode, as NVIDIA Dynamo's KV router counts them.

As `scheduling/selector/default.rs` of Dynamo's kv-router (commit 07a6c9ce, October 2026) with its defaults:

    prefill = prefill_load_scale * max(0, waiting + prompt - overlap_credit * held)      blocks
    cost    = prefill + decode blocks + decode_active_request_weight * requests in flight

and the least cost, equal ones by lot (temperature 0). `waiting` are uncached prompt tokens sent there that
await their first token; decode blocks are those that the requests in flight would have there with this one,
shared ones once. What another worker has in flight counts, but not that this prompt begins as it does.

Output blocks are not counted, as by default there. Blocks are of 64 bytes, about 16 tokens. What is held is
the router's index, Dynamo's own mode without events, or what the engines' events say. A baseline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from routing.policy import InFlight, Policy, chosen
from routing.types import Choice, EngineLoad, Prompt

_BLOCK_BYTES = 64


@dataclass(frozen=True, slots=True)
class Params:
    """`ValueError` for values below 0."""

    overlap_credit: float = 1.0
    prefill_load_scale: float = 1.0
    decode_active_request_weight: float = 0.0

    def __post_init__(self) -> None:
        for name in ("overlap_credit", "prefill_load_scale", "decode_active_request_weight"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name} must be 0 or more, not {getattr(self, name)}")


class DynamoCost:
    def __init__(self, params: Params) -> None:
        self._params = params
        self._flying: InFlight | None = None

    def watch(self, flying: InFlight) -> None:
        self._flying = flying

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        costs = self.costs(prompt, engines, cached)
        least = min(costs.values())
        equal = sorted(id for id, cost in costs.items() if cost == least)
        number = equal[int(rng.random() * len(equal))]
        engine = next(engine for engine in engines if engine.id == number)
        return chosen(engine, prompt, cached, "costs the fewest blocks", least, len(equal))

    def costs(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int]
    ) -> dict[int, float]:
        """Blocks."""
        params, flying = self._params, self._flying
        chain, ends = prompt.chain, prompt.ends
        total = ends[-1] if ends else 0
        costs = {}
        for engine in engines:
            decode = engine.context_bytes + total
            if engine.inflight and flying is not None:
                decode -= flying.in_use(engine.id, chain, ends)
            held = min(total, cached.get(engine.id, 0)) // _BLOCK_BYTES * params.overlap_credit
            waiting = (engine.pending_bytes + total) / _BLOCK_BYTES
            costs[engine.id] = (
                params.prefill_load_scale * max(0.0, waiting - held)
                + -(-decode // _BLOCK_BYTES)
                + params.decode_active_request_weight * engine.inflight
            )
        return costs


def build(params: Params) -> Policy:
    return DynamoCost(params)
