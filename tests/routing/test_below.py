"""What was foretold of lower tiers is counted by tier, and how much of it was found."""

from collections.abc import Mapping, Sequence

from tests.routing.bridge.model import BLOCK, prompt_of, tokens_of
from tests.routing.test_precise import FIRST, SECOND, Events, learn, made


class Tiers(Events):
    """Engine 1 has one block on its device, three in its host's memory or above, five in a store or above."""

    def match(self, blocks: Sequence[int], block_size: int) -> Mapping[int, int]:
        return {1: 1}

    def below(self, blocks: Sequence[int], block_size: int) -> Mapping[int, tuple[int, int]]:
        return {1: (3, 5)}


def test_what_was_foretold_below_and_found_is_counted_where_answers_say_what_was_cached() -> None:
    precise = made(Tiers(e1=BLOCK))
    learn(precise, FIRST)
    prompt, whole = prompt_of(SECOND), len(tokens_of(SECOND))
    for blocks in (1, 2, 5, 9, None):
        precise.held(prompt)
        precise.sent(prompt, 1)
        precise.answered(prompt, 1, whole, None if blocks is None else blocks * BLOCK)
    assert precise.below_tokens == [4 * 2 * BLOCK, 4 * 2 * BLOCK]
    assert precise.below_found == (0 + 1 + 4 + 4) * BLOCK
