"""What is said of engines that publish KV events: what was learned of the prompt and is held, no more."""

from collections.abc import Mapping, Sequence

import pytest

from routing.policy import NO_LIMIT_BYTES, Lasting
from routing.precise import Precise
from tests.routing.bridge.model import BLOCK, Said, blocks_of, prompt_of, tokens_of

SYSTEM: Said = ("system", "Be brief. " * 40)
FIRST: list[Said] = [SYSTEM, ("user", "What is a block? " * 4)]
SECOND: list[Said] = [*FIRST, ("assistant", "Sixteen tokens."), ("user", "And a page?")]


class Events:
    """Which engine holds which blocks, as its events would tell."""

    def __init__(self, **sizes: int) -> None:
        self.sizes = {int(name[1:]): size for name, size in sizes.items()}
        self.blocks: dict[int, set[int]] = {engine: set() for engine in self.sizes}
        self.ranked: tuple[int, ...] = ()  # blocks that each rank holds: what is said of them is their mean

    def store(self, engine: int, said: list[Said]) -> None:
        self.blocks[engine] |= set(blocks_of(tokens_of(said), self.sizes[engine]))

    def below(self, blocks: Sequence[int], block_size: int) -> Mapping[int, tuple[int, int]]:
        return {}

    def apart(self, blocks: Sequence[int], block_size: int) -> Mapping[int, Sequence[int]]:
        return {engine: self.ranked for engine in self.match(blocks, block_size) if self.ranked}

    def at_least(self, blocks: Sequence[int], block_size: int) -> Mapping[int, int]:
        return {}

    def judged(self, engine: int, foretold_tokens: int, cached_tokens: int, block_size: int) -> None:
        raise AssertionError("nothing was said of such an engine")

    def match(self, blocks: Sequence[int], block_size: int) -> Mapping[int, int]:
        found: dict[int, int] = {}
        for engine, size in self.sizes.items():
            if size == block_size:
                held = [block in self.blocks[engine] for block in blocks]
                found[engine] = held.index(False) if False in held else len(held)
                if self.ranked:
                    found[engine] = sum(self.ranked) // len(self.ranked)
        return found

    def block_sizes(self) -> Mapping[int, int]:
        return self.sizes


def learn(precise: Precise, said: list[Said]) -> None:
    prompt, ids = prompt_of(said), tokens_of(said)
    blocks = {size: blocks_of(ids, size) for size in precise.block_sizes}
    precise.learn(prompt.chain, prompt.ends, len(ids), blocks, 0)


def made(events: Events) -> Precise:
    precise = Precise(events)
    precise.look()
    return precise


def test_of_a_prompt_never_learned_nothing_is_known() -> None:
    precise = made(Events(e1=BLOCK))
    assert precise.held(prompt_of(FIRST)) == {}


def test_held_is_what_the_engine_has_of_what_was_learned() -> None:
    events = Events(e1=BLOCK, e2=BLOCK)
    precise = made(events)
    learn(precise, FIRST)
    prompt = prompt_of(SECOND)
    assert precise.held(prompt) == {1: 0, 2: 0}
    events.store(2, FIRST)
    held = precise.held(prompt)
    assert held[1] == 0
    assert 0.9 * prompt.ends[1] < held[2] <= prompt.ends[1]


def test_engines_of_two_block_sizes_are_known_each_by_its_own() -> None:
    events = Events(e1=BLOCK, e2=2 * BLOCK)
    precise = made(events)
    learn(precise, FIRST)
    for engine in (1, 2):
        events.store(engine, FIRST)
    held = precise.held(prompt_of(FIRST))
    assert held.keys() == {1, 2} and 0 < held[2] <= held[1]


def test_what_was_evicted_ends_what_is_held() -> None:
    events = Events(e1=BLOCK)
    precise = made(events)
    learn(precise, FIRST)
    events.store(1, FIRST)
    whole = precise.held(prompt_of(SECOND))[1]
    events.blocks[1] -= set(blocks_of(tokens_of(FIRST))[5:])
    assert 0 < precise.held(prompt_of(SECOND))[1] < whole / 4


def test_where_prompts_wait_what_the_memory_has_dropped_is_not_counted() -> None:
    events = Events(e1=BLOCK)
    precise = made(events)
    learn(precise, FIRST)
    learn(precise, SECOND)
    events.store(1, SECOND)
    prompt = prompt_of(SECOND)
    whole = precise.held(prompt)[1]
    ends = prompt.ends
    for memory_bytes in range(0, ends[-1] + 50, 50):
        lasts = precise.held(prompt, {1: Lasting(memory_bytes, 10**6)})[1]
        assert lasts <= min(whole, memory_bytes)
        if memory_bytes >= ends[-1]:
            assert lasts == whole
    assert precise.held(prompt, {1: Lasting(ends[1], 10**6)})[1] > 0.7 * ends[1]
    assert precise.held(prompt, {2: Lasting(0, 10**6)})[1] == whole  # that is another engine


def test_a_beginning_that_waits_there_too_will_have_come() -> None:
    events = Events(e1=BLOCK)
    precise = made(events)
    learn(precise, FIRST)
    prompt = prompt_of(SECOND)
    first, whole = prompt_of(FIRST).ends[-1], prompt.ends[-1]
    assert precise.held(prompt)[1] == precise.held(prompt, {1: Lasting(NO_LIMIT_BYTES, 10**6)})[1] == 0
    before = 0
    for coming in range(0, whole + 50, 50):
        held = precise.held(prompt, {1: Lasting(NO_LIMIT_BYTES, 10**6, coming)})[1]
        assert before <= held <= min(coming, first)  # no more of it is known
        before = held
    assert before > 0.7 * first
    precise.sent(prompt, 1)
    precise.answered(prompt, 1, len(tokens_of(SECOND)), 0)  # those that waited were not computed after all
    assert precise.accuracy.answers == precise.accuracy.too_high == 1


def test_what_comes_does_not_last_either_where_the_memory_has_dropped_it() -> None:
    events = Events(e1=BLOCK)
    precise = made(events)
    learn(precise, FIRST)
    prompt = prompt_of(FIRST)
    for memory_bytes in range(0, prompt.ends[-1], 50):
        assert precise.held(prompt, {1: Lasting(memory_bytes, 10**6, 10**6)})[1] <= memory_bytes


def test_no_more_goes_than_twice_what_waits_needs() -> None:
    events = Events(e1=BLOCK)
    precise = made(events)
    learn(precise, FIRST)
    events.store(1, FIRST)
    prompt = prompt_of(FIRST)
    whole = precise.held(prompt)[1]
    some = precise.held(prompt, {1: Lasting(0, whole // 8)})[1]
    assert 0.6 * whole < some < 0.8 * whole


def test_sent_tells_how_much_was_not_learned_yet() -> None:
    precise = made(Events(e1=BLOCK))
    first, second = prompt_of(FIRST), prompt_of(SECOND)
    precise.held(first)
    assert precise.sent(first, 1) == first.ends[-1]
    assert precise.sent(first, 1) == 0
    learn(precise, FIRST)
    precise.held(first)
    assert precise.sent(first, 1) == 0
    precise.held(second)
    assert precise.sent(second, 1) == second.ends[-1] - first.ends[-1]


def test_without_events_nothing_is_said_or_learned() -> None:
    precise = made(Events())
    prompt = prompt_of(FIRST)
    learn(precise, FIRST)
    assert precise.held(prompt) == {} and precise.sent(prompt, 1) == 0
    precise.answered(prompt, 1, 10, 10)
    assert precise.unlearned == 0


def answered(precise: Precise, cached: int) -> None:
    prompt = prompt_of(FIRST)
    precise.held(prompt)
    precise.sent(prompt, 1)
    precise.answered(prompt, 1, len(tokens_of(FIRST)), cached)


def test_answers_judge_what_was_foretold_and_end_the_trust() -> None:
    events = Events(e1=BLOCK)
    precise = made(events)
    answered(precise, 0)
    assert (precise.unlearned, precise.accuracy.answers) == (1, 0)
    learn(precise, FIRST)
    events.store(1, FIRST)
    real = (len(tokens_of(FIRST)) - 1) // BLOCK * BLOCK
    answered(precise, real)
    assert precise.accuracy.answers == 1 and not precise.accuracy.error_tokens
    for _ in range(64):
        answered(precise, 0)
    assert not precise.accuracy.is_trusted
    assert precise.held(prompt_of(FIRST)) == {}
    for _ in range(256):
        answered(precise, real)
    assert precise.held(prompt_of(FIRST)) != {}


def test_a_template_that_changes_all_the_time_is_not_believed() -> None:
    precise = made(Events(e1=BLOCK))
    prompt = prompt_of(FIRST)
    for day in range(6):
        ids = tokens_of(SECOND[:2], f"Today is day {day}. " * 3)
        other = prompt_of([*FIRST, ("assistant", "a"), ("user", f"{day}")])
        precise.learn(prompt.chain, prompt.ends, len(ids), {BLOCK: blocks_of(ids)}, 0)
        precise.learn(other.chain, other.ends, len(ids), {BLOCK: blocks_of([day, *ids])}, 0)
    assert precise.is_restless
    assert precise.held(prompt) == {}
    for number in range(300):
        learn(precise, [("system", f"{number} " * 50), ("user", "x")])
    assert not precise.is_restless


def test_another_template_is_learned_anew() -> None:
    events = Events(e1=BLOCK)
    precise = made(events)
    learn(precise, FIRST)
    precise.renew(3)
    assert precise.held(prompt_of(FIRST)) == {}
    assert precise.bridges[BLOCK].tail_tokens == 3


def test_of_ranks_that_hold_different_ends_the_mean_is_weighed_and_the_least_is_claimed() -> None:
    events = Events(e1=BLOCK)
    events.ranked = (2, 6, 10)
    precise = made(events)
    learn(precise, FIRST)
    events.store(1, FIRST)
    prompt = prompt_of(FIRST)
    per_token = prompt.ends[-1] / len(tokens_of(FIRST))
    assert precise.held(prompt)[1] == pytest.approx(6 * BLOCK * per_token, rel=0.1)
    assert precise.foretold(1) == 2 * BLOCK
    for count in (2, 6, 10) * 100:
        answered(precise, count * BLOCK)
    assert precise.accuracy.too_high == 0 and precise.accuracy.is_trusted
    assert precise.accuracy.predicted_tokens == precise.accuracy.found_tokens == 300 * 2 * BLOCK


def test_ranks_events_are_judged_by_the_one_that_may_have_answered() -> None:
    events = Events(e1=BLOCK)
    events.ranked = (0, 10)
    precise = made(events)
    learn(precise, FIRST)
    events.store(1, FIRST)
    for _ in range(100):
        answered(precise, 7 * BLOCK)  # none of them holds so little, nor so much
    assert precise.accuracy.too_high == 0 and not precise.accuracy.is_trusted


def test_where_prompts_wait_no_rank_is_said_to_find_more_than_lasts() -> None:
    events = Events(e1=BLOCK)
    events.ranked = (8, 10)
    precise = made(events)
    learn(precise, FIRST)
    events.store(1, FIRST)
    prompt = prompt_of(FIRST)
    precise.held(prompt, {1: Lasting(prompt.ends[0] // 4, 10**6)})
    lasts = precise.foretold(1)
    assert lasts is not None and lasts < 8 * BLOCK
    precise.sent(prompt, 1)
    precise.answered(prompt, 1, len(tokens_of(FIRST)), 10 * BLOCK)
    assert precise.accuracy.predicted_tokens == lasts
