"""Synthetic conversations share their system prompts, have long tails, and follow from their seed."""

from itertools import islice
from random import Random
from statistics import fmean, median

import pytest

from workload.prompts import Conversation, Lognormal, Shape, conversations, system_prompts


def draw(seed: int, count: int, shape: Shape | None = None) -> tuple[tuple[str, ...], list[Conversation]]:
    rng, shape = Random(seed), shape or Shape()
    systems = system_prompts(rng, shape)
    return systems, list(islice(conversations(rng, shape, systems), count))


def test_a_seed_gives_the_same_conversations_and_another_seed_gives_others() -> None:
    assert draw(7, 30) == draw(7, 30)
    assert draw(7, 30) != draw(8, 30)


def test_every_conversation_opens_with_one_of_the_few_shared_prompts_and_all_are_used() -> None:
    systems, drawn = draw(1, 300)
    assert len(set(systems)) == Shape().systems
    assert {conversation.system for conversation in drawn} == set(systems)


def test_the_first_prompt_is_the_most_popular() -> None:
    systems, drawn = draw(2, 600)
    uses = [sum(conversation.system == system for conversation in drawn) for system in systems]
    assert uses == sorted(uses, reverse=True)


def test_system_prompts_are_as_long_as_asked() -> None:
    shape = Shape(systems=12, system_bytes=(1_000, 3_000))
    sizes = [len(system) for system in system_prompts(Random(4), shape)]
    assert len(sizes) == 12 and min(sizes) >= 1_000 and max(sizes) < 3_200


def test_no_slot_is_left_unfilled() -> None:
    systems, drawn = draw(3, 200)
    said = [turn.user for conversation in drawn for turn in conversation.turns]
    assert not any("<" in text or ">" in text for text in (*systems, *said))


def test_conversations_that_share_a_system_prompt_differ_in_their_first_message() -> None:
    _, drawn = draw(5, 2_000)
    openings = {(conversation.system, conversation.turns[0].user) for conversation in drawn}
    assert len(openings) == len(drawn)


def test_the_number_of_turns_has_the_mean_and_the_bound_of_the_shape() -> None:
    _, drawn = draw(6, 4_000, Shape(turns=3.0, most_turns=40))
    turns = [len(conversation.turns) for conversation in drawn]
    assert fmean(turns) == pytest.approx(3.0, rel=0.08)
    assert max(turns) <= 40 and min(turns) == 1


def test_only_the_first_turn_comes_without_a_pause() -> None:
    _, drawn = draw(6, 100)
    for conversation in drawn:
        first, *later = conversation.turns
        assert first.think_s == 0 and all(turn.think_s > 0 for turn in later)


def test_a_lognormal_length_has_its_median_its_bounds_and_a_long_tail() -> None:
    rng, length = Random(9), Lognormal(100, 1.0, 10, 5_000)
    drawn = [length.draw(rng) for _ in range(20_000)]
    assert median(drawn) == pytest.approx(100, rel=0.05)
    assert fmean(drawn) > 1.4 * median(drawn)  # exp(sigma^2 / 2) = 1.65 without the bounds
    assert min(drawn) >= 10 and max(drawn) <= 5_000


def test_a_length_whose_bounds_exclude_its_median_is_refused() -> None:
    with pytest.raises(ValueError, match="low <= median <= high"):
        Lognormal(5, 1.0, 10, 20)


def test_the_share_of_sampled_conversations_is_the_shape_s() -> None:
    assert {conversation.temperature for conversation in draw(3, 200)[1]} == {0.0}
    _, drawn = draw(3, 4_000, Shape(sampled=0.2))
    assert fmean(conversation.temperature for conversation in drawn) == pytest.approx(0.2, abs=0.03)
