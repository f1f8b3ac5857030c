"""What is required of `prefix_cost`, in small: a fleet in virtual time, near what it can bear.

Noise is as in the proof's tables (`table.behind`): a policy is ahead where the 95 % interval of its paired
gain over the seeds lies on its side, and the gain is above a percent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import fsum
from random import Random

import pytest

from bench.routing.__main__ import POLICIES
from bench.routing.engine import Engine
from bench.routing.measures import Measures, measure
from bench.routing.ours import Ours
from bench.routing.plans import ORACLE, Row, Scene, one, oracles, rows, traffic
from bench.routing.setting import Setting
from bench.routing.table import OURS, behind, runs
from bench.routing.world import Plan, run
from routing.cost import PrefixCost
from routing.types import Choice, EngineLoad, Prompt

SMALL = Setting(engines=3)
ASKS, SEEDS = 150, range(5)
# Talks a second: about 95 % of what `least_load` bears, by `plans.capacity`.
SPEEDS = {"hot-prefix": 17.0, "multi-turn": 1.3, "agents": 0.5, "all-unique": 6.7}
pytestmark = pytest.mark.timeout(600)  # it computes, and a busy machine takes its time


def total(name: str, ran: Sequence[Measures]) -> float:
    return fsum(getattr(one, name) for one in ran)


@lru_cache
def ran(trace: str) -> list[list[Row]]:
    """All policies and the oracles, by seed."""
    scene = Scene(trace, "small", SMALL, ASKS)
    return [rows(scene, SPEEDS[trace], [1.0], POLICIES, seed) for seed in SEEDS]


def with_ours(trace: str, instead: Sequence[Measures]) -> list[list[Row]]:
    """The runs, as if these were `prefix_cost`'s."""
    return [
        [(load, name, mine if name == OURS else theirs) for load, name, theirs in seed]
        for seed, mine in zip(ran(trace), instead, strict=True)
    ]


@pytest.mark.parametrize("trace", SPEEDS)
def test_no_policy_is_ahead_in_goodput_or_ttft_p90(trace: str) -> None:
    assert list(behind(ran(trace))) == []


@pytest.mark.parametrize("trace", ["hot-prefix", "multi-turn", "agents"])
def test_where_there_is_reuse_it_finds_95_percent_of_what_the_clairvoyant_finds(trace: str) -> None:
    best = total("hit", runs(ran(trace), 1.0, ORACLE))
    assert best > 0.3 * len(SEEDS)
    assert total("hit", runs(ran(trace), 1.0, OURS)) >= 0.95 * best


def test_a_hot_prefix_leaves_the_busiest_engine_a_fifth_above_the_mean_at_most() -> None:
    assert total("imbalance", runs(ran("hot-prefix"), 1.0, OURS)) <= 1.2 * len(SEEDS)


def test_where_nothing_is_shared_it_is_no_worse_than_least_load() -> None:
    ours, theirs = (runs(ran("all-unique"), 1.0, name) for name in (OURS, "least_load"))
    assert total("goodput", ours) >= total("goodput", theirs) - 0.005 * len(SEEDS)
    assert total("ttft_p90_s", ours) <= 1.05 * total("ttft_p90_s", theirs)


class Blind(PrefixCost):
    """As if every engine held the whole prompt: what a prefill costs is ignored."""

    __slots__ = ()

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        whole = prompt.ends[-1] if prompt.ends else 0
        return super().choose(prompt, engines, {engine.id: whole for engine in engines}, rng)


def test_one_that_ignores_what_prefills_cost_would_not_do() -> None:
    trace = "hot-prefix"
    scene = Scene(trace, "small", SMALL, ASKS)

    def blind(seed: int) -> Measures:
        def chooser(engines: Sequence[Engine]) -> Ours:
            return Ours(lambda: Blind(5.0, 0.1, 0.15), SMALL, seed, engines)

        return measure(run(Plan(traffic(scene, seed), SPEEDS[trace], ASKS, SMALL, seed), chooser))

    assert list(behind(with_ours(trace, [blind(seed) for seed in SEEDS])))


@pytest.mark.parametrize("trace", SPEEDS)
def test_one_that_goes_round_in_turn_would_not_do(trace: str) -> None:
    assert list(behind(with_ours(trace, runs(ran(trace), 1.0, "round_robin"))))


@pytest.mark.parametrize("trace", SPEEDS)
def test_another_policy_whose_first_tokens_came_a_twentieth_sooner_would_be_named(trace: str) -> None:
    ours = runs(ran(trace), 1.0, OURS)
    less_s = 0.05 * total("ttft_p90_s", ours) / len(ours)
    seeds = [
        [*seed, (1.0, "sooner", replace(mine, ttft_p90_s=mine.ttft_p90_s - less_s))]
        for seed, mine in zip(ran(trace), ours, strict=True)
    ]
    assert [line.split(" has ")[0] for line in behind(seeds)] == ["load 100%: sooner"]


def test_without_events_chats_find_95_percent_of_what_the_clairvoyant_finds() -> None:
    """Half of what they asked before is gone: the memory of what was sent must lose it as the engines do."""
    scene = Scene("multi-turn", "small", Setting(), 900)
    best = [oracles(scene, 5.4, seed)[0] for seed in (0, 1)]
    ours = [one(scene, 5.4, OURS, seed) for seed in (0, 1)]
    assert total("hit", best) < 0.5 * 2
    assert total("hit", ours) >= 0.95 * total("hit", best)
