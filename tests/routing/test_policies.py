"""What each routing policy promises of its own."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.policies import least_load, prefix_cost, round_robin
from routing.types import EngineLoad, Prompt

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


def test_prefix_cost_keeps_to_the_holder_while_loads_are_alike() -> None:
    policy, rng = prefix_cost.build(prefix_cost.Params()), Random(1)
    engines = [EngineLoad(0, 5, 0), EngineLoad(1, 4, 0), EngineLoad(2, 3, 0)]
    choice = policy.choose(PROMPT, engines, {0: 8000}, rng)
    assert (choice.engine, choice.cached_bytes, choice.uncached_bytes) == (0, 8000, 0)
    assert (choice.cost_s, choice.inflight, choice.pending_bytes) == (0.25, 5, 0)


def test_prefix_cost_leaves_the_holder_when_computing_again_is_quicker() -> None:
    policy, rng = prefix_cost.build(prefix_cost.Params()), Random(1)
    busy = [EngineLoad(0, 5, 0), EngineLoad(1, 0, 0)]
    assert policy.choose(PROMPT, busy, {0: 8000}, rng).engine == 1  # 0.25 s of batch against 0.2 s of prefill
    waiting = [EngineLoad(0, 1, 40_000), EngineLoad(1, 1, 0)]
    assert policy.choose(PROMPT, waiting, {0: 8000}, rng).engine == 1


@given(st.integers(0, 50), st.integers(0, 10**6), st.integers(0, 8000))
def test_prefix_cost_never_takes_the_engine_that_is_worse_in_everything(
    inflight: int, pending: int, cached: int
) -> None:
    policy = prefix_cost.build(prefix_cost.Params())
    engines = [EngineLoad(0, inflight + 1, pending), EngineLoad(1, inflight, pending)]
    assert policy.choose(PROMPT, engines, {0: cached, 1: cached}, Random(1)).engine == 1


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_prefix_cost_refuses_a_rate_that_is_none(rate: float) -> None:
    with pytest.raises(ValueError, match="prefill_bytes_per_s"):
        prefix_cost.Params(prefill_bytes_per_s=rate)
    with pytest.raises(ValueError, match="decode_s_per_request"):
        prefix_cost.Params(decode_s_per_request=rate - 1.0)
