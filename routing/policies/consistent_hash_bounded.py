"""The engine that a prompt's beginning hashes to, unless that is clearly busier than the mean.

As SMG's `prefix_hash.rs` (commit 3adfd7d7, August 2026): the first 256 tokens are hashed; an engine takes the
request while its requests in flight are at most 1.25 times the mean, this request counted in it; otherwise
the least loaded of those that keep to the bound takes it, and the first when none does. That is consistent
hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2018) without the walk along the ring.

Two things differ. Where SMG has tokens, 1,024 bytes stand for them. And the engine is found by rendezvous
hashing instead of a ring of virtual nodes: when engines come and go the same few prompts move, and shares are
even. Whoever has the same engines agrees, with no memory and no exchange. A baseline.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from xxhash import xxh3_64_intdigest

from routing.policy import Policy, chosen
from routing.types import Choice, EngineLoad, Prompt


@dataclass(frozen=True, slots=True)
class Params:
    """`ValueError` when the bound is below 1 or no byte is hashed."""

    prefix_bytes: int = 1024
    """How much of the prompt is hashed: about four times SMG's `prefix_token_count`."""
    load_factor: float = 1.25
    """How many times the mean load an engine may have."""

    def __post_init__(self) -> None:
        if self.prefix_bytes < 1:
            raise ValueError(f"prefix_bytes must be 1 or more, not {self.prefix_bytes}")
        if not self.load_factor >= 1.0:
            raise ValueError(f"load_factor must be 1 or more, not {self.load_factor}")


class ConsistentHashBounded:
    def __init__(self, params: Params) -> None:
        self._prefix_bytes = params.prefix_bytes
        self._factor = params.load_factor

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        key = self._key(prompt)
        first = max(engines, key=lambda engine: xxh3_64_intdigest(engine.id.to_bytes(8, "little"), key))
        bound = self._factor * (sum(engine.inflight for engine in engines) + 1) / len(engines)
        if first.inflight <= bound:
            return chosen(first, prompt, cached, "its hash")
        least = min(engine.inflight for engine in engines)
        if least > bound:
            return chosen(first, prompt, cached, "its hash, all being busy")
        equal = sorted(engine.id for engine in engines if engine.inflight == least)
        number = equal[int(rng.random() * len(equal))]
        engine = next(engine for engine in engines if engine.id == number)
        return chosen(engine, prompt, cached, "its hash is busy: fewest in flight", equals=len(equal))

    def _key(self, prompt: Prompt) -> int:
        if not prompt.chain:
            return prompt.root & 0xFFFF_FFFF_FFFF_FFFF
        at = bisect_right(prompt.ends, self._prefix_bytes)
        return prompt.chain[at - 1 if at else 0] & 0xFFFF_FFFF_FFFF_FFFF


def build(params: Params) -> Policy:
    return ConsistentHashBounded(params)
