"""What `prefix_cost` makes of engines that cost the same, and of memories that say too much."""

from itertools import permutations
from random import Random

import pytest

from routing.policies import prefix_cost
from routing.types import EngineLoad, Prompt, Rates

WHOLE = 4000
PROMPT = Prompt("m", (1, 2), (2000, WHOLE), 1, 0, True, 100)


def engines(*, learned: bool, s_per_token: float = 1e-9) -> list[EngineLoad]:
    """Three without load; what computing takes is next to nothing where it is learned."""
    loads = [EngineLoad(id, 0, 0) for id in (4, 7, 9)]
    for load in loads:
        load.rates = Rates(samples=100, prefill_s_per_token=s_per_token, itl_s=0.01) if learned else None
    return loads


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_of_engines_that_cost_the_same_the_one_that_holds_most_has_it(order: tuple[int, ...]) -> None:
    policy, there = prefix_cost.build(prefix_cost.Params()), engines(learned=True)
    for cached in ({4: 100, 7: 3000, 9: 2000}, {7: 1}, {7: WHOLE, 9: WHOLE - 1}):
        choice = policy.choose(PROMPT, [there[at] for at in order], cached, Random(1))
        assert (choice.engine, choice.cached_bytes, choice.propensity) == (7, cached[7], 1.0)


def test_of_those_that_hold_as_much_the_lot_decides() -> None:
    policy, rng = prefix_cost.build(prefix_cost.Params()), Random(1)
    for learned in (True, False):
        for cached, among in (({}, {4, 7, 9}), ({4: 3000, 9: 3000}, {4, 9})):
            choices = [policy.choose(PROMPT, engines(learned=learned), cached, rng) for _ in range(60)]
            assert {one.engine for one in choices} == among
            assert {one.propensity for one in choices} == {1 / len(among)}


@pytest.mark.parametrize("learned", [True, False])
def test_no_more_of_a_prompt_is_held_than_there_is(learned: bool) -> None:
    policy, there = prefix_cost.build(prefix_cost.Params()), engines(learned=learned, s_per_token=1e-3)
    choice = policy.choose(PROMPT, there, {9: WHOLE + 500}, Random(1))
    assert (choice.engine, choice.cached_bytes, choice.uncached_bytes) == (9, WHOLE, 0)
