"""What the routing bench tells of engines' blocks is what they have, on the device and in the host's."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from bench.routing.asks import Ask
from bench.routing.engine import Answer, Engine
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


class Lying(Told):
    """Engine 0 says of every prompt that it holds all, or can load all."""

    below_only = False

    def _said(self, number: int, engine: Engine, chain: Sequence[int]) -> tuple[int, int]:
        if number:
            return super()._said(number, engine, chain)
        return (0, len(chain)) if self.below_only else (len(chain), 0)


class Believing(Ours):
    """Hears the lie.  Answers say what was cached, or do not, or that engine's repeat the lie."""

    def __init__(self, setting: Setting, engines: Sequence[Engine], *, below: bool, answers: str) -> None:
        super().__init__(lambda: policy_of("prefix_cost"), setting, 1, engines, reading=CREDIT)
        self._told = Lying(engines, CREDIT)
        self._told.below_only = below
        self._answers = answers
        for _, fleet in self._workers:
            fleet.router.know(self._told)

    def ended(self, sent: Sent, answer: Answer, now_ns: int) -> None:
        cached, told = answer.cached_tokens, self._told
        if self._answers == "lie" and sent.engine == 0:
            answer.cached_tokens = answer.prompt_tokens
        elif self._answers == "nothing":
            answer.cached_tokens, self._told = None, None  # type: ignore[assignment]
        super().ended(sent, answer, now_ns)
        answer.cached_tokens, self._told = cached, told


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("answers", ["truth", "nothing", "lie"])
def test_an_engine_that_says_it_has_everything_is_not_sent_everything(below: bool, answers: str) -> None:
    """Load wins: prompts of which nobody holds anything, at a load that one engine cannot bear."""
    four = Setting(engines=4)
    plan = Plan(drawn("all-unique", 7, 16), 3.0, 300, four, 1)
    lied = run(plan, lambda engines: Believing(four, engines, below=below, answers=answers))
    sent = Counter(one.engine for one in lied.outcomes)
    assert sent[0] < 0.7 * len(lied.outcomes) and measure(lied).goodput >= 0.85
