"""What is learned of an engine's speed from the answers it gives."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from routing import rates
from routing.rates import ENOUGH, KEPT, MAX_AGE_S, Learner, Sample
from routing.types import Rates

PER_TOKEN = 4.0


def answers(
    count: int,
    *,
    start_s: float = 0.02,
    prefill_s: float = 1e-4,
    attention_s: float = 0.0,
    itl_s: float = 0.02,
    per_request_s: float = 2e-4,
    noise: float = 0.0,
    told: bool = True,
    prompts: tuple[int, int] = (100, 4000),
    seed: int = 1,
) -> list[Sample]:
    """Of an engine that is exactly so."""
    rng, found = Random(seed), []
    for n in range(count):
        tokens = rng.randint(*prompts)
        cached = rng.randint(0, tokens // 2)
        uncached = tokens - cached
        pending, batch, output = rng.choice((0, 0, 3000, 9000)), rng.randint(1, 40), rng.randint(20, 300)
        work_s = prefill_s * (pending + uncached) + attention_s * uncached * (tokens - uncached / 2)
        found.append(
            Sample(
                float(n),
                (start_s + work_s) * rng.lognormvariate(0.0, noise),
                (itl_s + per_request_s * batch) * (output - 1) * rng.lognormvariate(0.0, noise),
                int(tokens * PER_TOKEN),
                int(uncached * PER_TOKEN),
                int(pending * PER_TOKEN),
                batch,
                tokens if told else None,
                cached if told else None,
                output if told else None,
            )
        )
    return found


def one(samples: list[Sample]) -> Rates:
    """What is learned of the only engine of a fleet."""
    (found,) = rates.learned([samples])
    assert found is not None
    return found


def test_an_engine_that_is_exactly_so_is_learned_exactly() -> None:
    found = one(answers(64))
    assert found.bytes_per_token == pytest.approx(PER_TOKEN, rel=0.01)
    assert found.prefill_s_per_token == pytest.approx(1e-4, rel=0.02)
    assert found.start_s == pytest.approx(0.02, rel=0.1)
    assert found.itl_s + 20 * found.itl_s_per_request == pytest.approx(0.02 + 20 * 2e-4, rel=0.15)
    assert found.itl_s_per_request == pytest.approx(0.02 / 64, rel=0.15), "within bounds only"
    assert 100 < found.output_tokens < 220
    assert found.attention_s_per_token2 == 0.0


@pytest.mark.parametrize("prefill_s", [2e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("hiccups", [6, 16])
def test_noise_and_hiccups_do_not_move_much(prefill_s: float, hiccups: int) -> None:
    """Up to a quarter of the answers waited 20 s for something else, a thousand times what they took."""
    for seed in range(200):
        samples = answers(64, seed=seed, prefill_s=prefill_s, noise=0.15)
        rng = Random(seed)
        for n in rng.sample(range(64), hiccups):
            samples[n] = replace(samples[n], first_s=samples[n].first_s + 20.0)
        found = one(samples)
        assert 0.6 < found.prefill_s_per_token / prefill_s < 1.6
        assert 0.6 < (found.itl_s + 20 * found.itl_s_per_request) / 0.024 < 1.6
        assert found.start_s + 1000 * found.prefill_s_per_token < 5 * (0.02 + 1000 * prefill_s)


@pytest.mark.parametrize("delay_s", [1.0, 20.0])
@pytest.mark.parametrize(
    "which",
    [slice(48, 64), slice(24, 34), slice(8)],
    ids=["the longest", "the middling", "the shortest"],
)
def test_it_may_be_the_prompts_of_one_length_that_meet_the_hiccups(which: slice, delay_s: float) -> None:
    """A quarter of all, the longest; a sixth, in the middle; or an eighth, the shortest."""
    for seed in range(100):
        samples = answers(64, seed=seed, noise=0.15)
        samples.sort(key=lambda one: one.uncached_bytes + one.pending_bytes)
        samples[which] = [replace(one, first_s=one.first_s + delay_s) for one in samples[which]]
        assert 0.6 < one(samples).prefill_s_per_token / 1e-4 < 1.6


def test_more_answers_than_are_looked_at_tell_the_same() -> None:
    found = one(answers(3000, noise=0.15))
    assert found.prefill_s_per_token == pytest.approx(1e-4, rel=0.15)


def test_the_square_term_is_found_where_prompts_are_long() -> None:
    found = one(answers(64, attention_s=5e-9, prompts=(1000, 100_000)))
    tokens = 100_000
    predicted = found.prefill_s_per_token * tokens + found.attention_s_per_token2 * tokens**2 / 2
    assert predicted == pytest.approx(1e-4 * tokens + 5e-9 * tokens**2 / 2, rel=0.25)
    assert found.attention_s_per_token2 > 1e-9


def test_engines_that_tell_no_tokens_are_learned_by_bytes() -> None:
    found = one(answers(64, told=False))
    assert found.prefill_s_per_token == pytest.approx(1e-4, rel=0.05)
    assert found.output_tokens == 1.0
    whole_s = found.itl_s + 20 * found.itl_s_per_request
    assert whole_s == pytest.approx(160 * 0.024, rel=0.75), "an answer stands for one token"


def test_equal_prompts_still_give_a_rate() -> None:
    samples = [Sample(float(n), 0.5, 1.0, 4000, 4000, 0, 1.0, 1000, 0, 10) for n in range(20)]
    assert one(samples).prefill_s_per_token == pytest.approx(5e-4)


heard_of = st.builds(
    Sample,
    st.floats(0, 1000),
    st.floats(0, 1e4),
    st.floats(0, 1e5),
    st.integers(0, 10**8),
    st.integers(0, 10**8),
    st.integers(0, 10**10),
    st.floats(0, 1e4),
    st.none() | st.integers(0, 10**7),
    st.none() | st.integers(0, 10**7),
    st.none() | st.integers(0, 10**6),
)


@given(st.lists(heard_of, min_size=ENOUGH, max_size=KEPT))
def test_whatever_is_heard_the_figures_can_be_reckoned_with(heard: list[Sample]) -> None:
    found = one(heard)
    assert 1e-7 <= found.prefill_s_per_token <= 0.1
    assert 0.25 <= found.bytes_per_token <= 64
    for name in ("start_s", "attention_s_per_token2", "itl_s", "itl_s_per_request", "output_tokens"):
        assert 0.0 <= getattr(found, name) < 1e9


def test_a_batch_of_less_than_the_answer_itself_is_one() -> None:
    """Divided by next to nothing, a second of difference would be a slope that no choice can reckon with."""
    heard = [Sample(0.0, 0.0, 0.0, 0, 0, 0, 0.0)] * 6
    heard += [Sample(0.0, 0.0, 1.0, 0, 0, 0, 0.0), Sample(0.0, 0.0, 1.0, 0, 0, 0, 4e-58)]
    assert one(heard).itl_s_per_request < 1.0


def test_too_few_samples_say_nothing_and_old_ones_are_forgotten() -> None:
    assert rates.learned([answers(ENOUGH - 1), [], answers(ENOUGH)])[:2] == [None, None]
    assert rates.learned([[], answers(ENOUGH - 1)]) == [None, None]
    learner = Learner()
    learner.heard(answers(10))
    assert len(learner.samples(10.0)) == 10
    assert len(learner.samples(5.0 + MAX_AGE_S)) == 5
    learner.heard(answers(1000))
    assert len(learner.samples(1000.0)) == KEPT
    learner.forget()
    assert not learner.samples(1000.0)


@pytest.mark.parametrize("factor", [0.4, 2.0, 3.0])
def test_an_engine_of_another_speed_is_told_from_the_rest(factor: float) -> None:
    fleet = [answers(64, seed=n, noise=0.1) for n in range(3)]
    other = answers(
        64, seed=9, noise=0.1, start_s=0.02 * factor, prefill_s=1e-4 * factor, itl_s=0.02 * factor
    )
    found = [one for one in rates.learned([*fleet, other]) if one is not None]
    middle = rates.alike(found)
    for one in found:
        rates.settle(one, middle)
    alike, apart = found[:3], found[3]
    assert len({one.prefill_s_per_token for one in alike}) == len({one.itl_s for one in alike}) == 1
    assert apart.prefill_s_per_token / alike[0].prefill_s_per_token == pytest.approx(factor, rel=0.25)
    assert apart.itl_s / alike[0].itl_s == pytest.approx(factor, rel=0.35)


@given(st.integers(0, 1000))
def test_equal_engines_are_taken_as_equal(seed: int) -> None:
    """What they scatter by is no difference: else one would draw the traffic."""
    fleet = [answers(64, seed=seed + n, noise=0.2) for n in range(8)]
    found = [one for one in rates.learned(fleet) if one is not None]
    middle = rates.alike(found)
    for one in found:
        rates.settle(one, middle)
    assert len({(one.start_s, one.prefill_s_per_token, one.itl_s) for one in found}) == 1


def test_engines_a_little_apart_are_taken_as_alike_and_others_are_not() -> None:
    fleet = [Rates(64, one) for one in (1.0e-4, 1.1e-4, 1.2e-4, 4e-4)]
    middle = rates.alike(fleet)
    for one in fleet:
        rates.settle(one, middle)
    assert [one.prefill_s_per_token for one in fleet] == pytest.approx([1.15e-4, 1.15e-4, 1.15e-4, 4e-4])


def test_what_several_workers_learned_is_weighed_by_its_samples() -> None:
    found = rates.pooled([Rates(10, 1e-4, output_tokens=100.0), Rates(30, 2e-4, output_tokens=200.0)])
    assert found.samples == 40
    assert (found.prefill_s_per_token, found.output_tokens) == pytest.approx((1.75e-4, 175.0))
