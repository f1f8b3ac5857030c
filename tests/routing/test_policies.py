"""What each routing policy promises of its own."""

from functools import partial
from math import e
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.policies import least_load, prefix_cost, round_robin
from routing.types import EngineLoad, Prompt, Rates

PROMPT = Prompt("m", (1, 2), (1000, 8000), 1, 0, True, None)


def idle(*ids: int) -> list[EngineLoad]:
    return [EngineLoad(n, 0, 0) for n in ids]


@given(st.lists(st.integers(0, 99), min_size=1, max_size=8, unique=True), st.integers(0, 99))
def test_round_robin_serves_all_before_it_serves_one_again(ids: list[int], seed: int) -> None:
    policy, rng = round_robin.build(round_robin.Params()), Random(seed)
    for _ in range(3):
        assert sorted(policy.choose(PROMPT, idle(*ids), {}, rng).engine for _ in ids) == sorted(ids)


def test_round_robin_goes_on_while_engines_come_and_go() -> None:
    policy, rng = round_robin.build(round_robin.Params()), Random(1)
    offered = [[2], [1, 2, 3], [1, 3], [1, 2], [1, 2, 9], [1, 2, 9]]
    assert [policy.choose(PROMPT, idle(*ids), {}, rng).engine for ids in offered] == [2, 3, 1, 2, 9, 1]


def test_least_load_counts_requests_then_waiting_bytes() -> None:
    policy, rng = least_load.build(least_load.Params()), Random(1)
    engines = [EngineLoad(0, 2, 0), EngineLoad(1, 1, 900), EngineLoad(2, 1, 800)]
    assert policy.choose(PROMPT, engines, {0: 8000}, rng).engine == 2


def rated(id: int, inflight: int = 0, pending_bytes: int = 0, **figures: float) -> EngineLoad:
    """An engine of 10,000 prompt tokens/s of 4 bytes; figures of it may be others."""
    engine = EngineLoad(id, inflight, pending_bytes)
    engine.rates = Rates(64, **{"prefill_s_per_token": 1e-4, **figures})
    return engine


def cost(*engines: EngineLoad, prompt: Prompt = PROMPT, held: dict[int, int] | None = None) -> list[float]:
    policy = prefix_cost.build(prefix_cost.Params(later=3.0))
    costs = _costs(policy, prompt, engines, held or {})
    choice = policy.choose(prompt, engines, held or {}, Random(1))
    assert choice.cost_s == costs[choice.engine]
    assert choice.cost_s == pytest.approx(min(costs.values()), rel=0.01, abs=0.001)
    assert 1.0 / len(engines) <= choice.propensity <= 1.0
    return [costs[engine.id] for engine in engines]


def _costs(policy: Any, *asked: Any) -> dict[int, float]:
    costs: dict[int, float] = policy.costs(*asked)
    return costs


def test_prefix_cost_leaves_what_is_held_where_it_is_as_long_as_nothing_speaks_against_it() -> None:
    policy, rng = prefix_cost.build(prefix_cost.Params()), Random(1)
    engines = [rated(n, prefill_s_per_token=1e-7) for n in range(4)]  # so fast that holding saves 0.2 ms
    assert {policy.choose(PROMPT, engines, {2: 8000, 3: 1000}, rng).engine for _ in range(50)} == {2}


def test_prefix_cost_with_a_temperature_draws_by_cost_and_says_the_odds() -> None:
    policy, rng = prefix_cost.build(prefix_cost.Params(temperature_s=0.1)), Random(1)
    engines = [rated(0), rated(1, start_s=0.1), rated(2, start_s=0.2)]
    odds = {n: e**-n / (1 + e**-1 + e**-2) for n in range(3)}
    choices = [policy.choose(PROMPT, engines, {}, rng) for _ in range(3000)]
    for choice in choices:
        assert choice.propensity == pytest.approx(odds[choice.engine])
    for n, chance in odds.items():
        assert [one.engine for one in choices].count(n) / 3000 == pytest.approx(chance, abs=0.03)


def test_prefix_cost_is_the_formula_that_its_docstring_gives() -> None:
    assert cost(rated(0)) == [pytest.approx(4 * 0.2)], "itself, and three times that for those who come later"
    assert cost(rated(0, 0, 4000)) == [pytest.approx(4 * 0.2 + 0.1)], "behind what waits"
    assert cost(rated(0), held={0: 6000}) == [pytest.approx(4 * 0.05)]
    square = rated(0, attention_s_per_token2=1e-8)
    assert cost(square) == [pytest.approx(4 * (0.2 + 1e-8 * 2000 * 1000))]
    assert cost(square, held={0: 4000}) == [pytest.approx(4 * (0.1 + 1e-8 * 1000 * 1500))]
    slow = rated(0, 5, start_s=0.01, itl_s=0.02, itl_s_per_request=0.001, output_tokens=100.0)
    token_s = 0.02 + 0.001 * (2 * 5 + 1)
    assert cost(slow) == [pytest.approx(0.01 + 4 * 0.2 + 0.1 * 100 * token_s)]
    short = Prompt("m", (1, 2), (1000, 8000), 1, 0, True, 10)
    assert cost(slow, prompt=short) == [pytest.approx(0.01 + 4 * 0.2 + 0.1 * 10 * token_s)]


def test_prefix_cost_draws_among_engines_that_cost_nearly_the_same_and_says_the_odds() -> None:
    policy, rng = prefix_cost.build(prefix_cost.Params()), Random(1)
    engines = [rated(0), rated(1, start_s=0.0005), rated(2, start_s=0.01)]
    choices = [policy.choose(PROMPT, engines, {}, rng) for _ in range(200)]
    assert {one.propensity for one in choices} == {0.5}
    assert 70 < [one.engine for one in choices].count(0) < 130
    assert [one.engine for one in choices].count(2) == 0


def test_prefix_cost_of_a_full_cache_rises() -> None:
    half, nearly, over = rated(0), rated(1), rated(2)
    half.kv_usage, nearly.kv_usage, over.kv_usage = 0.5, 0.9, 1.3
    low, high, most = (one - 0.8 for one in cost(half, nearly, over))
    assert low == pytest.approx(0.15) and high == pytest.approx(0.15 * 9) and 2 < most < 10


def test_prefix_cost_reckons_what_was_sent_since_the_engine_told_its_cache() -> None:
    told = rated(0)
    told.kv_usage, told.kv_tokens = 0.5, 100_000
    told.context_bytes, told.reported_bytes = 250_000, 98_000  # 38,000 tokens since, 2,000 to come
    assert cost(told) == [pytest.approx(0.8 + 0.15 * 9)]
    silent = rated(0, 20, output_tokens=1800.0)
    silent.kv_tokens, silent.context_bytes = 100_000, 4 * 70_000  # 18,000 of answers, 2,000 to come
    assert cost(silent) == [pytest.approx(0.8 + 0.15 * 9)]


def test_prefix_cost_gives_an_engine_twice_as_fast_twice_the_work() -> None:
    policy, rng = prefix_cost.build(prefix_cost.Params()), Random(1)
    fast, slow = rated(0, prefill_s_per_token=5e-5), rated(1)
    for _ in range(300):
        choice = policy.choose(PROMPT, [fast, slow], {}, rng)
        (fast, slow)[choice.engine].pending_bytes += choice.uncached_bytes
    assert 1.9 < fast.pending_bytes / slow.pending_bytes < 2.1


def test_prefix_cost_leaves_the_holder_when_computing_again_is_quicker() -> None:
    policy, rng = prefix_cost.build(prefix_cost.Params(later=3.0)), Random(1)
    assert policy.choose(PROMPT, [rated(0, 1, 7000), rated(1, 1)], {0: 8000}, rng).engine == 0
    assert policy.choose(PROMPT, [rated(0, 1, 40_000), rated(1, 1)], {0: 8000}, rng).engine == 1


def test_prefix_cost_multiplies_work_and_batch_until_it_knows_the_engines() -> None:
    engines = [EngineLoad(0, 3, 1000), EngineLoad(1, 1, 0), rated(2)]
    assert cost(*engines, held={0: 8000, 1: 4000}) == [4 * (1000 + 1024), 2 * 4000, 8000]


@given(st.integers(0, 50), st.integers(0, 10**6), st.integers(0, 8000), st.booleans())
def test_prefix_cost_never_takes_the_engine_that_is_worse_in_everything(
    inflight: int, pending: int, cached: int, learned: bool
) -> None:
    policy = prefix_cost.build(prefix_cost.Params())
    make = partial(rated, itl_s_per_request=1e-4, output_tokens=100.0) if learned else EngineLoad
    engines = [make(0, inflight + 1, pending), make(1, inflight, pending)]
    assert policy.choose(PROMPT, engines, {0: cached, 1: cached}, Random(1)).engine == 1


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_prefix_cost_refuses_a_weight_that_is_none(weight: float) -> None:
    with pytest.raises(ValueError, match="later"):
        prefix_cost.Params(later=weight)
    with pytest.raises(ValueError, match="pressure_s"):
        prefix_cost.Params(pressure_s=weight)
