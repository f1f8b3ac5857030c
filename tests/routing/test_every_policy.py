"""What holds of every routing policy, whatever its name."""

from collections import Counter
from importlib import import_module
from math import sqrt
from pkgutil import iter_modules
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from routing import policies
from routing.policies import prefix_cost
from routing.policy import Policy
from routing.types import EngineLoad, Prompt, Rates

NAMES = sorted(module.name for module in iter_modules(policies.__path__) if not module.name.startswith("_"))
every_policy = pytest.mark.parametrize("name", NAMES)

loads = st.lists(
    st.builds(EngineLoad, st.integers(0, 40), st.integers(0, 300), st.integers(0, 10**8)),
    min_size=1,
    max_size=8,
    unique_by=lambda engine: engine.id,
)
caches = st.dictionaries(st.integers(0, 50), st.integers(1, 10**6), max_size=8)
sizes = st.lists(st.integers(1, 1024), max_size=40)
seeds = st.integers(0, 2**32)


def build(name: str) -> Policy:
    module = import_module(f"{policies.__name__}.{name}")
    policy: Policy = module.build(module.Params())
    return policy


def prompt_of(steps: list[int]) -> Prompt:
    ends = tuple(sum(steps[: n + 1]) for n in range(len(steps)))
    return Prompt("m", tuple(range(len(ends))), ends, 1, 0, True, None)


def conversation(n: int) -> Prompt:
    """One that has nothing in common with those of other numbers."""
    link = xxh3_64_intdigest(n.to_bytes(8, "little"))
    return Prompt("m", (link,), (100,), link, 0, True, None, session=link)


def test_there_are_policies() -> None:
    assert {"least_load", "prefix_cost", "round_robin"} <= set(NAMES)


# One situation is put before all of them: it takes longer to draw than to decide.


@settings(max_examples=200)
@given(loads, caches, sizes, seeds)
def test_chooses_one_of_the_engines_it_was_given_and_says_why(
    engines: list[EngineLoad], cached: dict[int, int], steps: list[int], seed: int
) -> None:
    for name in NAMES:
        policy, rng = build(name), Random(seed)
        for _ in range(3):
            choice = policy.choose(prompt_of(steps), engines, cached, rng)
            assert choice.engine in {engine.id for engine in engines}, name
            assert choice.why and "\n" not in choice.why and len(choice.why) < 100, name


@settings(max_examples=200)
@given(loads, caches, sizes, seeds)
def test_cached_and_uncached_bytes_make_up_the_prompt(
    engines: list[EngineLoad], cached: dict[int, int], steps: list[int], seed: int
) -> None:
    for name in NAMES:
        choice = build(name).choose(prompt_of(steps), engines, cached, Random(seed))
        assert choice.cached_bytes == min(cached.get(choice.engine, 0), sum(steps)), name
        assert choice.cached_bytes + choice.uncached_bytes == sum(steps), name


@settings(max_examples=200)
@given(loads, caches, sizes, seeds)
def test_the_same_seed_makes_the_same_choices(
    engines: list[EngineLoad], cached: dict[int, int], steps: list[int], seed: int
) -> None:
    def choices(name: str) -> list[int]:
        policy, rng = build(name), Random(seed)
        return [policy.choose(prompt_of(steps), engines, cached, rng).engine for _ in range(5)]

    for name in NAMES:
        assert choices(name) == choices(name), name


@settings(max_examples=200)
@given(loads, caches, sizes, seeds)
def test_keeps_and_changes_nothing_it_was_given(
    engines: list[EngineLoad], cached: dict[int, int], steps: list[int], seed: int
) -> None:
    for name in NAMES:
        offered, known = list(engines), dict(cached)
        policy, rng = build(name), Random(seed)
        first = policy.choose(prompt_of(steps), offered, known, rng)
        assert (offered, known) == (engines, cached), name
        offered[:], known = [EngineLoad(99, 500, 10**9)], {}
        assert policy.choose(prompt_of(steps), offered, known, rng).engine == 99, name
        assert first.engine != 99, name


@given(loads, caches, sizes, seeds, st.randoms(use_true_random=False))
def test_the_order_of_the_engines_does_not_decide(
    engines: list[EngineLoad], cached: dict[int, int], steps: list[int], seed: int, order: Random
) -> None:
    shuffled = list(engines)
    order.shuffle(shuffled)
    prompt = prompt_of(steps)

    def reachable(name: str, offered: list[EngineLoad]) -> set[int]:
        return {build(name).choose(prompt, offered, cached, Random(seed + n)).engine for n in range(100)}

    for name in NAMES:
        assert reachable(name, shuffled) == reachable(name, engines), name


@every_policy
def test_equal_engines_are_chosen_equally_often(name: str) -> None:
    engines = [EngineLoad(n, 3, 100) for n in (7, 2, 5, 9)]
    policy, rng = build(name), Random(1)
    counts = dict.fromkeys((7, 2, 5, 9), 0)
    for n in range(4000):
        counts[policy.choose(conversation(n), engines, {}, rng).engine] += 1
    assert all(850 < count < 1150 for count in counts.values())


@every_policy
def test_of_many_first_choices_no_engine_is_favoured(name: str) -> None:
    engines = [EngineLoad(n, 0, 0) for n in range(4)]
    firsts = [build(name).choose(conversation(n), engines, {}, Random(n)).engine for n in range(2000)]
    assert all(400 < firsts.count(n) < 600 for n in range(4))


# Each with a prompt that nobody or one engine holds.
FLEETS = [(4,), (3, 3), (9, 1, 5, 7), (1, 1, 5, 3), (2, 2, 2, 2), (0, 0, 0, 60)]
DRAWS = 1000


@pytest.mark.parametrize("held", [{}, {0: 500, 2: 900}])
@pytest.mark.parametrize("inflight", FLEETS)
@pytest.mark.parametrize("name", [*NAMES, "prefix_cost by chance"])
def test_the_chance_that_a_choice_tells_is_the_share_of_such_choices(
    name: str, inflight: tuple[int, ...], held: dict[int, int]
) -> None:
    engines = [EngineLoad(n, number, 100 * number, 1) for n, number in enumerate(inflight)]
    for engine in engines:
        engine.rates = Rates(100, 1e-4, 1e-9, 0.02, 0.02, 1e-4, 200.0)
    rng, prompt = Random(1), prompt_of([500, 500])
    told: dict[int, float] = {}
    drawn = Counter[int]()
    for _ in range(DRAWS):
        by_chance = prefix_cost.build(prefix_cost.Params(temperature_s=0.2))
        choice = (by_chance if name not in NAMES else build(name)).choose(prompt, engines, held, rng)
        assert choice.propensity == pytest.approx(told.setdefault(choice.engine, choice.propensity))
        drawn[choice.engine] += 1
    for engine_id, chance in told.items():
        spread = sqrt(chance * (1 - chance) / DRAWS)
        assert abs(drawn[engine_id] / DRAWS - chance) <= 5 * spread, (engine_id, chance, drawn)
    assert 0.98 < sum(told.values()) < 1.0 + 1e-9  # of the rest none was drawn
