"""What the routing bench tells of engines' blocks is what they have, on the device and in the host's."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bench.routing.asks import Ask
from bench.routing.engine import Engine
from bench.routing.measures import measure
from bench.routing.oracles import Clairvoyant, Pooled
from bench.routing.ours import Ours
from bench.routing.plans import Scene, one, policy_of
from bench.routing.setting import Setting
from bench.routing.told import CREDIT, DEVICE, FULL, READINGS, Told
from bench.routing.traces import drawn
from bench.routing.world import Chooser, Plan, Run, Sent, run
from emulator.kv_cache import Lease

SMALL = Setting(engines=3, kv_tokens=30_000, host_tokens=200_000)


class Watched(Ours):
    """Looks, before each choice, whether what is told of every engine is what it would find."""

    def __init__(self, setting: Setting, engines: Sequence[Engine], reading: str) -> None:
        super().__init__(lambda: policy_of("prefix_cost"), setting, 1, engines, reading=reading)
        self.mine, self.reading = Told(engines, reading), reading
        self.engines = engines
        self.moved = 0

    def choose(self, ask: Ask, now_ns: int, without: frozenset[int]) -> Sent | None:
        self.mine.ask = ask
        held, below = self.mine.held(ask.prompt), self.mine.below()
        whole, tokens = ask.prompt.ends[-1], ask.prompt_tokens
        for number, engine in enumerate(self.engines):
            cache = engine.cache
            lease = Lease(range(tokens), ask.blocks, "", "")
            here = cache.held(lease, tokens)
            more = cache.loadable(lease, here, tokens)
            self.moved += more
            if self.reading == FULL:
                here, more = here + more, 0
            assert held[number] == here * whole // tokens
            told = below.get(number, (0, 0))
            assert told == ((more * whole // tokens if self.reading == CREDIT else 0), 0)
        return super().choose(ask, now_ns, without)


def replay(reading: str, setting: Setting = SMALL) -> tuple[Run, Watched]:
    watched: list[Watched] = []

    def chooser(engines: Sequence[Engine]) -> Chooser:
        watched.append(Watched(setting, engines, reading))
        return watched[0]

    return run(Plan(drawn("multi-turn", 7, 16), 0.7, 200, setting, 1), chooser), watched[0]


@pytest.mark.parametrize("reading", READINGS)
def test_what_is_told_is_what_each_engine_would_find_and_runs_are_repeatable(reading: str) -> None:
    ran, watched = replay(reading)
    assert watched.moved, "something was to be loaded"
    assert all(one.arrived_s < one.first_s <= one.ended_s for one in ran.outcomes)
    assert ran.outcomes == replay(reading)[0].outcomes


def test_what_can_be_loaded_is_found_by_those_who_count_it() -> None:
    found = {reading: measure(replay(reading)[0]).hit for reading in (CREDIT, DEVICE)}
    assert found[CREDIT] > found[DEVICE] + 0.05


def test_without_a_tier_below_the_readings_are_one() -> None:
    bare = replace(SMALL, host_tokens=0, kv_tokens=60_000)
    ran = [replay(reading, bare)[0].outcomes for reading in READINGS]
    assert ran[0] == ran[1] == ran[2]


def test_oracles_see_what_can_be_loaded() -> None:
    pooled: list[Pooled] = []

    def chooser(engines: Sequence[Engine]) -> Chooser:
        pooled.append(Pooled(Clairvoyant(SMALL, engines), SMALL))
        return pooled[0]

    ran = run(Plan(drawn("multi-turn", 7, 16), 0.7, 200, SMALL, 1), chooser)
    assert measure(ran).hit > measure(replay(DEVICE)[0]).hit
    assert sum(pooled[0].held) >= 0.95 * sum(one.cached_tokens for one in ran.outcomes)


def test_a_reading_is_named_behind_the_policy() -> None:
    scene = Scene("multi-turn", "small", SMALL, 100)
    assert one(scene, 0.7, "prefix_cost@credit", 3).hit > one(scene, 0.7, "prefix_cost@device", 3).hit
    with pytest.raises(ValueError, match="read as credit, device, full"):
        one(scene, 0.7, "prefix_cost@everything", 3)
