"""The engine with the best weighted score of queue, KV cache and held prefix.

As the endpoint picker of the Gateway API Inference Extension, now llm-d-router, by its default configuration
(`loader/defaults.go`, commit 520af478, May 2026):

    score = 2 * (longest - queue) / (longest - shortest)     1 where all queues are alike
          + 2 * (1 - KV cache usage)
          + 3 * held blocks / blocks of the prompt           blocks of 64 bytes, the first 256 only

and the best score is taken, equal ones by lot. What is beyond 16 KB of a prompt is not seen, as there. Queue
and usage are the engines' own reports; where an engine makes none, requests that await their first token
stand for its queue, and its cache counts as empty. A baseline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from routing.policy import Policy, chosen
from routing.types import Choice, EngineLoad, Prompt

_BLOCK_BYTES = 64  # 16 tokens of 4 characters
_MOST_BLOCKS = 256


@dataclass(frozen=True, slots=True)
class Params:
    """`ValueError` for weights below 0."""

    queue: float = 2.0
    kv_cache: float = 2.0
    prefix: float = 3.0

    def __post_init__(self) -> None:
        for name in ("queue", "kv_cache", "prefix"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name} must be 0 or more, not {getattr(self, name)}")


class GieScorers:
    def __init__(self, params: Params) -> None:
        self._params = params

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        scores = self._scores(prompt, engines, cached)
        best = max(scores)
        equal = sorted(engine.id for engine, score in zip(engines, scores, strict=True) if score == best)
        number = equal[int(rng.random() * len(equal))]
        engine = next(engine for engine in engines if engine.id == number)
        return chosen(engine, prompt, cached, "scores best", -best, len(equal))

    def costs(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int]
    ) -> dict[int, float]:
        """Scores, below 0: the best is the least."""
        scores = self._scores(prompt, engines, cached)
        return {engine.id: -score for engine, score in zip(engines, scores, strict=True)}

    def _scores(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int]
    ) -> list[float]:
        params = self._params
        queues = [engine.awaiting if engine.queued is None else engine.queued for engine in engines]
        longest, shortest = max(queues), min(queues)
        blocks = min(_MOST_BLOCKS, -(-(prompt.ends[-1] if prompt.ends else 0) // _BLOCK_BYTES))
        scores = []
        for engine, queue in zip(engines, queues, strict=True):
            waits = (longest - queue) / (longest - shortest) if longest > shortest else 1.0
            held = min(blocks, cached.get(engine.id, 0) // _BLOCK_BYTES) / blocks if blocks else 0.0
            room = 1.0 - (engine.kv_usage or 0.0)
            scores.append(params.queue * waits + params.kv_cache * room + params.prefix * held)
        return scores


def build(params: Params) -> Policy:
    return GieScorers(params)
