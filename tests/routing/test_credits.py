"""What a token in a lower tier is worth is learned from what loading it saved; until then it is nothing."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing import credits, rates
from routing.cost import PrefixCost
from routing.credits import PRIOR
from routing.index import PrefixIndex
from routing.rates import Sample
from routing.router import Router
from routing.types import EngineLoad, Prompt, Rates

PER_TOKEN = 4.0
START_S, PREFILL_S = 0.02, 1e-4
SPEED = Rates(64, PREFILL_S, 0.0, START_S, 0.02, 0.0, 100.0, PER_TOKEN)


def answers(
    count: int, costs: float, *, tier: int = 0, noise: float = 0.0, seed: int = 1, credit: float = 0.0
) -> list[Sample]:
    """Of an engine that loads a part of each prompt in `costs` times what computing it takes."""
    rng, found = Random(seed), []
    for n in range(count):
        tokens = rng.randint(1000, 6000)
        held = rng.randint(0, tokens // 4)
        more = rng.randint((tokens - held) // 3, tokens - held - 50)
        first_s = (START_S + PREFILL_S * (tokens - held - more * (1.0 - costs))) * rng.lognormvariate(
            0, noise
        )
        below = (int(more * PER_TOKEN), 0) if tier == 0 else (0, int(more * PER_TOKEN))
        credited = int(more * credit * PER_TOKEN)
        uncached = int((tokens - held) * PER_TOKEN) - credited
        found.append(
            Sample(
                float(n), first_s, 2.0, int(tokens * PER_TOKEN), uncached, 0, 1.0,
                tokens, held + more, 100, below, credited,
            )
        )  # fmt: skip
    return found


def plain(count: int, seed: int = 1) -> list[Sample]:
    rng, found = Random(seed), []
    for n in range(count):
        tokens = rng.randint(100, 6000)
        whole = int(tokens * PER_TOKEN)
        first_s = START_S + PREFILL_S * tokens
        found.append(Sample(float(n), first_s, 2.0, whole, whole, 0, 1.0, tokens, 0, 100))
    return found


def learned(engines: list[list[Sample]]) -> list[Rates]:
    """As a worker has them a second later."""
    found = [one for one in rates.learned(engines) if one is not None]
    fleet = rates.alike(found)
    for one in found:
        rates.settle(one, fleet)
    return found


@pytest.mark.parametrize("costs", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("tier", [0, 1])
@pytest.mark.parametrize("credit", [0.0, 0.5])
def test_what_loading_saves_is_found_whatever_credit_it_had(costs: float, tier: int, credit: float) -> None:
    heard = plain(24) + answers(40, costs, tier=tier, noise=0.1, credit=credit)
    (one,) = learned([heard])
    drawn = (1.0 - costs) * 40 / (40 + PRIOR)  # towards none
    found = (one.host_credit, one.store_credit)
    assert drawn - 0.12 < found[tier] < 1.0 - costs + 0.12
    assert found[1 - tier] == 0.0


@given(st.floats(1.0, 20.0), st.integers(0, 1000))
def test_loading_that_takes_as_long_as_computing_is_worth_nothing(costs: float, seed: int) -> None:
    (one,) = learned([plain(24, seed) + answers(40, costs, noise=0.1, seed=seed)])
    assert one.host_credit < 0.12 and one.store_credit == 0.0


def test_there_is_no_credit_in_advance_and_little_for_little() -> None:
    (one,) = learned([plain(64)])
    assert one.host_credit == one.store_credit == 0.0
    before = 0.0
    for count in (1, 4, 16, 32):
        (one,) = learned([plain(32) + answers(count, 0.0)])
        assert before < one.host_credit <= 1.0 - (PRIOR / (count + PRIOR)) ** 2 + 0.05
        before = one.host_credit
    assert before > 0.75


def test_loading_does_not_make_an_engine_look_fast() -> None:
    (one,) = learned([plain(24) + answers(40, 0.1)])
    assert one.prefill_s_per_token == pytest.approx(PREFILL_S, rel=0.02)


def test_an_engine_of_which_little_is_known_has_its_fleets_credit() -> None:
    fleet = [plain(24, n) + answers(40, 0.2, seed=n) for n in range(3)]
    new, other = plain(24, 8), plain(24, 9) + answers(40, 1.0, seed=9)
    found = learned([*fleet, new, other])
    assert found[3].host_credit == pytest.approx(0.6, abs=0.15)  # one in four of the fleet loads in vain
    assert found[4].host_credit < 0.25 < 0.6 < found[0].host_credit


def test_workers_pool_what_they_found_each_by_what_it_saw() -> None:
    few, many = Rates(64), Rates(64)
    few.host_credit, few.host_samples = 0.0, 10.0
    many.host_credit, many.host_samples = 0.8, 30.0
    found = rates.pooled([few, many])
    assert found.host_credit == pytest.approx(0.6) and found.host_samples == 40.0
    credits.settle(None, found)
    assert found.host_credit == pytest.approx(0.6 * 40 / 48)


class Known:
    """Nothing is held on a device; engine 2 has 40,000 bytes of each prompt in its host's memory."""

    def held(self, prompt: Prompt, lasting: object = None) -> dict[int, int]:
        return {1: 0, 2: 0}

    def below(self) -> dict[int, tuple[int, int]]:
        return {2: (40_000, 0)}

    def share(self, engine: int) -> float:
        return 1.0

    def rename(self, prompt: Prompt) -> None:
        pass


def chosen(credit: float, busy: int) -> tuple[int, int, tuple[int, int] | None, float]:
    """Of two engines, of which the second has `busy` prompt bytes waiting."""
    router = Router(PrefixCost(3.0, 0.1, 0.15), PrefixIndex(), Random(1))
    router.know(Known())
    engines = [EngineLoad(1, 0, 0), EngineLoad(2, 1 if busy else 0, busy)]
    for one in engines:
        one.rates = Rates(64, PREFILL_S, 0.0, START_S, 0.02, 0.0, 100.0, PER_TOKEN, host_credit=credit)
    prompt = Prompt("m", [1, 2], [40_000, 44_000], 1, 0, True, None)
    choice = router.choose(prompt, engines, 1.0, explain=True)
    assert choice.costs is not None
    return choice.engine, choice.credited_bytes, choice.below, choice.costs[1] - choice.costs[2]


def test_a_credit_is_seconds_in_the_cost_and_is_told_with_the_choice() -> None:
    engine, credited, below, cheaper_s = chosen(0.8, busy=8000)
    assert (engine, credited, below) == (2, 32_000, (40_000, 0))
    assert cheaper_s == pytest.approx(4.0 * PREFILL_S * 32_000 / 4 - PREFILL_S * 8000 / 4, abs=0.02)


def test_without_credit_what_waits_decides_and_among_equals_the_tier_does() -> None:
    assert chosen(0.0, busy=8000)[:2] == (1, 0)
    assert {chosen(0.0, busy=0)[:2] for _ in range(8)} == {(2, 0)}, "so that something is learned"


class Cut:
    """Engine 2 has the first 3,900 bytes on its device, where a block ends, and 36,000 more below."""

    def held(self, prompt: Prompt, lasting: object = None) -> dict[int, int]:
        return {1: 0, 2: 3900}

    def below(self) -> dict[int, tuple[int, int]]:
        return {2: (36_000, 0)}

    def share(self, engine: int) -> float:
        return 1.0

    def rename(self, prompt: Prompt) -> None:
        pass


@pytest.mark.parametrize(("sent", "credited"), [([1], 28_800), ([1, 2], None)])
def test_what_was_just_sent_ends_a_credit_only_where_it_says_more(
    sent: list[int], credited: int | None
) -> None:
    router = Router(PrefixCost(3.0, 0.1, 0.15), PrefixIndex(), Random(1))
    router.know(Cut())
    engine = EngineLoad(2, 0, 0)
    engine.rates = Rates(64, PREFILL_S, 0.0, START_S, 0.02, 0.0, 100.0, PER_TOKEN, host_credit=0.8)
    router.choose(Prompt("m", sent, [4000, 40_000][: len(sent)], 1, 0, True, None), [engine], 1.0)
    choice = router.choose(Prompt("m", [1, 2, 3], [4000, 40_000, 44_000], 1, 0, True, None), [engine], 2.0)
    if credited is None:  # its siblings have it loaded before its turn comes
        assert choice.below is None and choice.cached_bytes == 40_000
    else:
        assert choice.credited_bytes == credited and choice.cached_bytes == 3900 + credited
