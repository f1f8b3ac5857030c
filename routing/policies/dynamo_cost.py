"""The engine with the fewest blocks to compute and to decode, as NVIDIA Dynamo's KV router counts them.

As `scheduling/selector/default.rs` of Dynamo's kv-router (commit 07a6c9ce, October 2026) with its defaults:

    prefill = prefill_load_scale * max(0, waiting + prompt - overlap_credit * held)      blocks
    cost    = prefill + decode blocks + decode_active_request_weight * requests in flight

and the least cost, equal ones by lot (temperature 0). `waiting` are uncached prompt tokens sent there that
await their first token; decode blocks are those that the requests in flight would have there with this one,
shared ones once.

Dynamo is told when a request ends; a policy is not, so the prompts sent there last are taken for those in
flight, as many as are. Output blocks are not counted, as by default there. Blocks are of 64 bytes, about 16
tokens. What is held is the router's index, Dynamo's own mode without events. A baseline.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from routing.policy import Policy, chosen
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
        self._active: dict[int, _Active] = {}

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        costs = self.costs(prompt, engines, cached)
        least = min(costs.values())
        equal = sorted(id for id, cost in costs.items() if cost == least)
        number = equal[int(rng.random() * len(equal))]
        engine = next(engine for engine in engines if engine.id == number)
        self._active.setdefault(number, _Active()).add(prompt)
        return chosen(engine, prompt, cached, "costs the fewest blocks", least, len(equal))

    def costs(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int]
    ) -> dict[int, float]:
        """Blocks."""
        params = self._params
        total = prompt.ends[-1] if prompt.ends else 0
        costs = {}
        for engine in engines:
            active = self._active.get(engine.id)
            decode = total if active is None else active.with_this(prompt, engine.inflight)
            held = min(total, cached.get(engine.id, 0)) // _BLOCK_BYTES * params.overlap_credit
            waiting = (engine.pending_bytes + total) / _BLOCK_BYTES
            costs[engine.id] = (
                params.prefill_load_scale * max(0.0, waiting - held)
                + -(-decode // _BLOCK_BYTES)
                + params.decode_active_request_weight * engine.inflight
            )
        return costs


class _Active:
    """The prompts that an engine is taken to have in flight."""

    __slots__ = ("_bytes", "_links", "_prompts")

    def __init__(self) -> None:
        self._prompts: deque[Prompt] = deque()
        self._links: dict[int, int] = {}  # of all prompts: by how many
        self._bytes = 0

    def add(self, prompt: Prompt) -> None:
        self._prompts.append(prompt)
        before = 0
        for link, end in zip(prompt.chain, prompt.ends, strict=True):
            number = self._links.get(link, 0)
            self._links[link] = number + 1
            if not number:
                self._bytes += end - before
            before = end

    def with_this(self, prompt: Prompt, inflight: int) -> int:
        """Bytes of all, beginnings that are shared once, when `prompt` comes to the `inflight` last ones."""
        while len(self._prompts) > inflight:
            self._drop(self._prompts.popleft())
        chain, ends, links = prompt.chain, prompt.ends, self._links
        low, high = 0, len(chain)  # chain[:low] is shared
        while low < high:
            middle = (low + high) // 2
            if chain[middle] in links:
                low = middle + 1
            else:
                high = middle
        shared = ends[low - 1] if low else 0
        return self._bytes + (ends[-1] if ends else 0) - shared

    def _drop(self, prompt: Prompt) -> None:
        before = 0
        for link, end in zip(prompt.chain, prompt.ends, strict=True):
            number = self._links[link] - 1
            if number:
                self._links[link] = number
            else:
                del self._links[link]
                self._bytes -= end - before
            before = end


def build(params: Params) -> Policy:
    return DynamoCost(params)
