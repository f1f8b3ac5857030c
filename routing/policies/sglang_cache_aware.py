"""The engine that holds most of the prompt, unless loads are far apart: then the least loaded.

As `cache_aware.rs` of SMG / sglang-router 0.3.2 and vllm-router 0.1.17, with the defaults of their commands:

    imbalanced = max - min > 64 and max > 1.5 * min      requests in flight
    imbalanced:                        the fewest in flight, whatever anyone holds
    held / length > 0.3 (cache_threshold): an engine that holds the most
    otherwise:                         the fewest in flight

Their tree of texts is the router's index here: of the size of the engines' caches, where theirs remembers
32 to 64 MB an engine. Where several hold the most, theirs keeps to one that it found first; here that is the
lowest id. Where several have the fewest, theirs takes the first in order, here one is drawn by lot: that
favours nobody. Releases before 2026 sent what nobody held to the engine with the smallest tree. A baseline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from routing.policy import Policy, chosen
from routing.types import Choice, EngineLoad, Prompt


@dataclass(frozen=True, slots=True)
class Params:
    """`ValueError` for shares outside 0..1 and thresholds below 0."""

    cache_threshold: float = 0.3
    """The share of the prompt that must be held for the holder to be preferred."""
    balance_abs_threshold: int = 64
    """So many more requests than the least loaded must the most loaded have to be imbalanced,"""
    balance_rel_threshold: float = 1.5
    """and so many times as many."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.cache_threshold <= 1.0:
            raise ValueError(f"cache_threshold must lie in 0..1, not {self.cache_threshold}")
        if self.balance_abs_threshold < 0 or not self.balance_rel_threshold >= 0.0:
            raise ValueError("balance_abs_threshold and balance_rel_threshold must be 0 or more")


class SglangCacheAware:
    def __init__(self, params: Params) -> None:
        self._params = params

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        params = self._params
        loads = [engine.inflight for engine in engines]
        least, most = min(loads), max(loads)
        why = "nobody holds enough: fewest in flight"
        if most - least > params.balance_abs_threshold and most > params.balance_rel_threshold * least:
            why = "imbalanced: fewest in flight"
        else:
            total = prompt.ends[-1] if prompt.ends else 0
            holder = max(engines, key=lambda engine: (cached.get(engine.id, 0), -engine.id))
            held = min(total, cached.get(holder.id, 0))
            if held > params.cache_threshold * total:
                return chosen(holder, prompt, cached, "holds the most")
        equal = sorted(engine.id for engine in engines if engine.inflight == least)
        number = equal[int(rng.random() * len(equal))]
        engine = next(engine for engine in engines if engine.id == number)
        return chosen(engine, prompt, cached, why, equals=len(equal))


def build(params: Params) -> Policy:
    return SglangCacheAware(params)
