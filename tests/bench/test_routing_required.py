"""What is required of `prefix_cost`, in small: a fleet in virtual time, near what it can bear."""

from math import fsum

import pytest

from bench.routing.measures import Measures
from bench.routing.plans import Scene, one, oracles
from bench.routing.setting import Setting

SEEDS = (0, 1)
pytestmark = pytest.mark.timeout(600)  # it computes, and a busy machine takes its time


def total(name: str, ran: list[Measures]) -> float:
    return fsum(getattr(one, name) for one in ran)


def ran(trace: str, setting: Setting, speed: float, policy: str) -> list[Measures]:
    return [one(Scene(trace, "small", setting, 900), speed, policy, seed) for seed in SEEDS]


def test_without_events_chats_find_95_percent_of_what_the_clairvoyant_finds() -> None:
    """Half of what they asked before is gone: the memory of what was sent must lose it as the engines do."""
    scene = Scene("multi-turn", "small", Setting(), 900)
    best = [oracles(scene, 5.4, seed)[0] for seed in SEEDS]
    ours = ran("multi-turn", Setting(), 5.4, "prefix_cost")
    assert total("hit", best) < 0.5 * len(SEEDS)
    assert total("hit", ours) >= 0.95 * total("hit", best)


def test_a_hot_prefix_leaves_the_busiest_engine_a_fifth_above_the_mean_at_most() -> None:
    ours = ran("hot-prefix", Setting(engines=4), 12.0, "prefix_cost")
    assert total("imbalance", ours) <= 1.2 * len(SEEDS)


def test_where_nothing_is_shared_it_is_no_worse_than_least_load() -> None:
    ours, theirs = (
        ran("all-unique", Setting(engines=4), 7.0, name) for name in ("prefix_cost", "least_load")
    )
    assert total("goodput", ours) >= total("goodput", theirs) - 0.005 * len(SEEDS)
    assert total("ttft_p90_s", ours) <= 1.05 * total("ttft_p90_s", theirs)
