"""What a request costs at each engine, in seconds, and where it costs least.

In the notation of `prefix_cost`, whose docstring gives the formula. It is on the way of every request, so it
is compiled where that is asked for, and makes nothing that a choice does not need.
"""

from collections.abc import Mapping, Sequence
from math import exp
from random import Random
from typing import Final

from routing.policy import chosen_of
from routing.types import Choice, EngineLoad, Prompt

LEAST_BYTES: Final = 64
"""Of a prompt that is held whole the last block is computed again."""
LEAST_UNLEARNED_BYTES: Final = 1024
"""What a request is taken to be in the least where its decoding cannot be reckoned: about 256 tokens."""
_UNLEARNED: Final = "least work times batch"
_LEARNED: Final = "costs least"
_DRAWN: Final = "drawn by what it costs"
_SESSION: Final = "costs least, as others do: its session's"
_MASK: Final = (1 << 64) - 1
# Costs as close as this are the same: what is learned is not more exact, and engines alike share the work.
_ALIKE_S: Final = 0.001
_FULL: Final = 0.95  # share of a KV cache beyond which the barrier does not rise further


class PrefixCost:
    """Costs by these weights; see `routing.policies.prefix_cost`."""

    __slots__ = ("_compute", "_decode", "_pressure_s", "_temperature_s", "idle_are_alike")

    def __init__(self, later: float, decode: float, pressure_s: float, temperature_s: float = 0.0) -> None:
        self._temperature_s = temperature_s
        self.idle_are_alike = temperature_s == 0.0  # else each of them has its own chance
        self._compute = 1.0 + later
        self._decode = decode
        self._pressure_s = pressure_s

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        """The engine of least cost, one of several by lot."""
        listed = engines if isinstance(engines, list) else list(engines)  # of a known kind: half as dear
        return self._chosen(prompt, listed, cached, rng)

    def _chosen(
        self, prompt: Prompt, engines: list[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        ends = prompt.ends
        whole = ends[-1] if ends else 0
        held = _held(engines, cached)
        costs = self._costs(whole, prompt.max_tokens, engines, held)
        why, alike_s = _LEARNED, _ALIKE_S
        if costs is None:
            costs, why, alike_s = _unlearned(whole, engines, held), _UNLEARNED, 0.0
        elif self._temperature_s > 0.0:
            return self._drawn(whole, engines, held, rng, costs)
        least = costs[0]
        for cost in costs:  # compiled, a fifth of what `min` takes
            if cost < least:
                least = cost
        alike = least + alike_s
        most = -1  # where it is held it stays: nothing speaks for moving it
        equal: list[int] = []
        for place, cost in enumerate(costs):
            if cost <= alike:
                if held[place] > most:
                    most = held[place]
                    equal = [place]
                elif held[place] == most:
                    equal.append(place)
        number = len(equal)
        if number == 1:
            place = equal[0]
        elif prompt.session:
            engine = home(prompt.session, [engines[place] for place in equal])
            return chosen_of(engine, whole, most, _SESSION, least, 1)
        else:
            place = equal[int(rng.random() * number)]
        return chosen_of(engines[place], whole, most, why, costs[place], number)

    def _drawn(
        self,
        whole: int,
        engines: Sequence[EngineLoad],
        held: list[int],
        rng: Random,
        costs: list[float],
    ) -> Choice:
        """Each engine with a chance that falls by e with each `temperature_s` that it costs more."""
        least = min(costs)
        weights = [exp((least - cost) / self._temperature_s) for cost in costs]
        lot = rng.random() * sum(weights)
        place = 0
        while place < len(weights) - 1 and lot >= weights[place]:
            lot -= weights[place]
            place += 1
        choice = chosen_of(engines[place], whole, held[place], _DRAWN, costs[place], 1)
        choice.propensity = weights[place] / sum(weights)
        return choice

    def costs(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int]
    ) -> dict[int, float]:
        """Every engine's cost."""
        listed = engines if isinstance(engines, list) else list(engines)
        whole, held = prompt.ends[-1] if prompt.ends else 0, _held(listed, cached)
        costs = self._costs(whole, prompt.max_tokens, listed, held)
        if costs is None:
            costs = _unlearned(whole, listed, held)
        return {engine.id: cost for engine, cost in zip(listed, costs, strict=True)}

    def _costs(
        self, whole: int, most: int | None, engines: list[EngineLoad], held: list[int]
    ) -> list[float] | None:
        """Seconds at each; None where nothing was learned yet of one of them."""
        costs: list[float] = []
        for place, engine in enumerate(engines):
            rates = engine.rates
            if rates is None:
                return None
            uncached = whole - held[place]
            if uncached < LEAST_BYTES:
                uncached = LEAST_BYTES
            inflight = float(engine.inflight)
            per_token = rates.bytes_per_token
            n = uncached / per_token
            own_s = rates.prefill_s_per_token * n
            if rates.attention_s_per_token2:
                own_s += rates.attention_s_per_token2 * n * (whole / per_token - 0.5 * n)
            wait_s = rates.start_s + rates.prefill_s_per_token * engine.pending_bytes / per_token
            output = rates.output_tokens
            if most is not None and most < output:
                output = float(most)
            itl_s = rates.itl_s + rates.itl_s_per_request * (2.0 * inflight + 1.0)
            cost = wait_s + self._compute * own_s + self._decode * output * itl_s
            usage, capacity = engine.kv_usage, engine.kv_tokens
            if capacity is not None:
                if usage is None:  # half of the answers is there in the mean
                    filled = engine.context_bytes / per_token + 0.5 * rates.output_tokens * inflight
                    usage = (filled + n) / capacity
                else:
                    usage += (engine.context_bytes - engine.reported_bytes + uncached) / per_token / capacity
            if usage is not None and usage > 0.0:
                if usage > _FULL:
                    usage = _FULL
                cost += self._pressure_s * usage / (1.0 - usage)
            costs.append(cost)
        return costs


def home(session: int, engines: Sequence[EngineLoad]) -> EngineLoad:
    """The engine that a session hashes to: the highest of the pairs' hashes (rendezvous hashing)."""
    best, highest = engines[0], -1
    for engine in engines:
        # splitmix64's finalizer
        mixed = (session ^ ((engine.id + 1) * 0x9E3779B97F4A7C15)) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        mixed ^= mixed >> 31
        if mixed > highest:
            best, highest = engine, mixed
    return best


def _held(engines: list[EngineLoad], cached: Mapping[int, int]) -> list[int]:
    """Bytes of the prompt that each has: looked up once, for they are asked for several times."""
    if not cached:
        return [0] * len(engines)
    known = cached if isinstance(cached, dict) else dict(cached)
    return [known.get(engine.id, 0) for engine in engines]


def _unlearned(whole: int, engines: list[EngineLoad], held: list[int]) -> list[float]:
    """LMetric (arXiv 2603.15202): the prompt bytes to be computed there, times the batch."""
    costs: list[float] = []
    for place, engine in enumerate(engines):
        uncached = whole - held[place]
        if uncached < LEAST_UNLEARNED_BYTES:
            uncached = LEAST_UNLEARNED_BYTES
        costs.append(float(engine.pending_bytes + uncached) * float(engine.inflight + 1))
    return costs
