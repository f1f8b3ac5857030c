"""Who continues a prompt is chosen as if every engine held all of it, and by what is in flight."""

from collections.abc import Callable
from random import Random

import pytest

from routing.handed import Handed
from routing.index import PrefixIndex
from routing.policies import dynamo_cost, least_load, prefix_cost
from routing.policy import InFlight, Policy
from routing.router import Router
from routing.types import EngineLoad, Prompt

PROMPT = Prompt("m", [1, 2], [4000, 8000], 1, 0, True, None)


class Watching(least_load.LeastLoad):
    """Keeps where it was told to look."""

    def __init__(self) -> None:
        self.flying: list[InFlight] = []

    def watch(self, flying: InFlight) -> None:
        self.flying.append(flying)


def test_a_policy_that_asks_is_told_where_to_look_and_one_that_does_not_is_left_alone() -> None:
    policy, index = Watching(), PrefixIndex()
    Router(Handed(policy), index, Random(1))
    assert policy.flying == [index]
    Router(Handed(least_load.build(least_load.Params())), index, Random(1))


def test_what_is_in_flight_counts_in_the_choice_of_who_continues() -> None:
    """Of two engines the one that runs the same prompt has to keep less beside it."""
    index = PrefixIndex()
    router = Router(Handed(dynamo_cost.build(dynamo_cost.Params())), index, Random(1))
    other = Prompt("m", [7, 8], [4000, 8000], 7, 0, True, None)
    index.record(1, PROMPT.chain, PROMPT.ends, 0.0)
    index.record(2, other.chain, other.ends, 0.0)
    engines = [EngineLoad(1, 1, 0, 0, 8000), EngineLoad(2, 1, 0, 0, 8000)]
    choice = router.choose(PROMPT, engines, 1.0, explain=True)
    assert choice.costs is not None and choice.costs[1] < choice.costs[2]


@pytest.mark.parametrize(
    "build",
    [lambda: least_load.build(least_load.Params()), lambda: prefix_cost.build(prefix_cost.Params())],
)
def test_whatever_chooses_the_prompt_comes_along_whole(build: Callable[[], Policy]) -> None:
    router = Router(Handed(build()), PrefixIndex(), Random(1))
    choice = router.choose(PROMPT, [EngineLoad(1, 0, 0), EngineLoad(2, 3, 9)], 1.0)
    assert (choice.engine, choice.cached_bytes, choice.uncached_bytes) == (1, 8000, 0)
