"""What the copies of other routers' policies promise of their own: their published rules, by example.

`python -m bench.routing.alike` holds them against the programs themselves.
"""

from collections import Counter
from random import Random

import pytest

from routing.index import PrefixIndex
from routing.policies import (
    consistent_hash_bounded,
    dynamo_cost,
    gie_scorers,
    least_load,
    power_of_two,
    sglang_cache_aware,
)
from routing.router import Router
from routing.shadow import Shadow
from routing.types import EngineLoad, Prompt

KB = 1024


def prompt(*links: int, root: int = 1) -> Prompt:
    """A KB for each link."""
    return Prompt("m", links, [KB * (n + 1) for n in range(len(links))], root, 0, True, None)


def loads(*inflight: int) -> list[EngineLoad]:
    return [EngineLoad(n, number, 0) for n, number in enumerate(inflight)]


def test_power_of_two_never_takes_the_busiest_and_takes_the_idlest_of_four_half_the_time() -> None:
    policy, rng = power_of_two.build(power_of_two.Params()), Random(1)
    engines = loads(9, 1, 5, 7)
    taken = Counter(policy.choose(prompt(1), engines, {}, rng).engine for _ in range(6000))
    assert taken[0] == 0
    # Of six pairs it wins three, the next two, the next one.
    assert [round(taken[n] / 1000) for n in (1, 2, 3)] == [3, 2, 1]


def test_bounded_hashing_keeps_a_beginning_together_whatever_follows() -> None:
    policy = consistent_hash_bounded.build(consistent_hash_bounded.Params())
    engines = loads(3, 3, 3, 3)
    homes = {
        first: {policy.choose(prompt(first, n), engines, {}, Random(n)).engine for n in range(20)}
        for first in range(40)
    }
    assert all(len(home) == 1 for home in homes.values())
    assert set.union(*homes.values()) == {0, 1, 2, 3}


def test_bounded_hashing_moves_few_prompts_when_an_engine_leaves() -> None:
    policy = consistent_hash_bounded.build(consistent_hash_bounded.Params())
    before = {n: policy.choose(prompt(n), loads(0, 0, 0, 0), {}, Random(1)).engine for n in range(400)}
    after = {n: policy.choose(prompt(n), loads(0, 0, 0), {}, Random(1)).engine for n in range(400)}
    assert all(after[n] == before[n] for n in before if before[n] != 3)


@pytest.mark.parametrize(
    ("inflight", "stays"),
    [((4, 3, 3, 3), True), ((5, 3, 3, 3), False), ((1, 0, 0, 0), False), ((0, 0, 0, 0), True)],
)
def test_bounded_hashing_leaves_its_engine_above_a_quarter_over_the_mean(
    inflight: tuple[int, ...], stays: bool
) -> None:
    policy = consistent_hash_bounded.build(consistent_hash_bounded.Params())
    home = next(
        n for n in range(99) if policy.choose(prompt(n), loads(0, 0, 0, 0), {}, Random(1)).engine == 0
    )
    assert (policy.choose(prompt(home), loads(*inflight), {}, Random(1)).engine == 0) == stays


@pytest.mark.parametrize(
    ("inflight", "held", "engine"),
    [
        ((5, 0), {0: 4 * KB}, 0),  # 4 of 10 KB are more than 0.3
        ((5, 0), {0: 3 * KB}, 1),  # 3 are not
        ((65, 1), {0: 10 * KB}, 0),  # 64 apart: not yet imbalanced
        ((66, 1), {0: 10 * KB}, 1),  # imbalanced: whatever is held
        ((200, 134), {0: 10 * KB}, 0),  # 66 apart, but not one and a half times as many
        ((3, 3), {0: 4 * KB, 1: 9 * KB}, 1),
    ],
)
def test_cache_aware_follows_its_three_rules(
    inflight: tuple[int, ...], held: dict[int, int], engine: int
) -> None:
    policy = sglang_cache_aware.build(sglang_cache_aware.Params())
    assert policy.choose(prompt(*range(10)), loads(*inflight), held, Random(1)).engine == engine


def test_gie_weighs_queue_cache_and_prefix_two_two_three() -> None:
    policy = gie_scorers.GieScorers(gie_scorers.Params())
    engines = loads(0, 0, 0)
    for engine, queued, usage in zip(engines, (4, 1, 0), (0.5, 0.25, 1.0), strict=True):
        engine.queued, engine.kv_usage = queued, usage
    scores = policy.costs(prompt(*range(4)), engines, {0: 4 * KB, 1: KB})
    assert scores == {
        0: -(2 * 0.0 + 2 * 0.5 + 3 * 1.0),
        1: -(2 * 0.75 + 2 * 0.75 + 3 * 0.25),
        2: -(2 * 1.0 + 2 * 0.0 + 3 * 0.0),
    }


def test_gie_sees_nothing_beyond_its_first_256_blocks() -> None:
    policy = gie_scorers.GieScorers(gie_scorers.Params())
    scores = policy.costs(prompt(*range(40)), loads(0, 0), {0: 16 * KB, 1: 40 * KB})
    assert scores[0] == scores[1]


def test_dynamo_counts_what_waits_what_is_asked_and_what_decodes() -> None:
    policy = dynamo_cost.DynamoCost(dynamo_cost.Params())
    engines = [EngineLoad(0, 0, 2 * KB), EngineLoad(1, 0, 0)]
    blocks = 10 * KB // 64
    costs = policy.costs(prompt(*range(10)), engines, {0: 4 * KB})
    assert costs == {0: (2 - 4 + 10) * KB / 64 + blocks, 1: 2 * blocks}


def test_dynamo_counts_the_blocks_of_requests_in_flight_shared_ones_once() -> None:
    policy, index, only = dynamo_cost.DynamoCost(dynamo_cost.Params()), PrefixIndex(), loads(0)
    router = Router(policy, index, Random(1))
    shared = [prompt(1, 2, 3, n) for n in range(10, 20)]

    def costs(one: Prompt) -> float:
        only[0].context_bytes = index.used_bytes(0)
        return policy.costs(one, only, {0: 4 * KB})[0]

    for one in shared:
        router.choose(one, only, 0.0)
        only[0].inflight += 1
    whole = (3 + 10 + 1) * KB // 64  # three shared KB, one each of ten, one of the next
    assert costs(prompt(1, 2, 3, 99)) == whole
    for one in shared[4:]:  # the last that came end first
        only[0].inflight -= 1
        router.ended(0, one)
    assert costs(prompt(1, 2, 3, 99)) == whole - 6 * KB // 64
    assert costs(shared[0]) == whole - 7 * KB // 64  # that one is there
    assert costs(shared[9]) == whole - 6 * KB // 64  # that one is not any more
    for one in shared[:4]:
        only[0].inflight -= 1
        router.refused(0, one)
    assert costs(prompt(1, 2, 3, 99)) == 4 * KB // 64


def test_dynamo_counts_what_other_workers_have_in_flight() -> None:
    policy = dynamo_cost.DynamoCost(dynamo_cost.Params())
    assert policy.costs(prompt(1, 2), [EngineLoad(0, 1, 0, 0, 10 * KB)], {}) == {0: (2 + 10 + 2) * KB / 64}


def test_a_policy_that_is_not_obeyed_counts_what_is_in_flight_and_not_what_it_would_have() -> None:
    obeyed, index = least_load.build(least_load.Params()), PrefixIndex()
    asked = dynamo_cost.DynamoCost(dynamo_cost.Params())
    shadow = Shadow({"dynamo_cost": asked}, Random(1))
    shadow.watch(index)
    router, engines = Router(obeyed, index, Random(1)), loads(0, 1)
    engines[1].context_bytes = 50 * KB
    router.choose(prompt(1, 2), engines, 0.0, shadow=shadow)
    engines[0].inflight, engines[0].context_bytes = 1, index.used_bytes(0)
    assert shadow.scores["dynamo_cost"].agreed == 1
    assert asked.costs(prompt(1, 3), engines, {}) == {0: 5 * KB / 64, 1: 54 * KB / 64}
    router.ended(0, prompt(1, 2))
    assert index.used_bytes(0) == 0


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="load_factor"):
        consistent_hash_bounded.Params(load_factor=0.5)
    with pytest.raises(ValueError, match="prefix_bytes"):
        consistent_hash_bounded.Params(prefix_bytes=0)
    with pytest.raises(ValueError, match="cache_threshold"):
        sglang_cache_aware.Params(cache_threshold=1.5)
    with pytest.raises(ValueError, match="balance_abs_threshold"):
        sglang_cache_aware.Params(balance_abs_threshold=-1)
    with pytest.raises(ValueError, match="queue"):
        gie_scorers.Params(queue=float("nan"))
    with pytest.raises(ValueError, match="overlap_credit"):
        dynamo_cost.Params(overlap_credit=-1.0)
