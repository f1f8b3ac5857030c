"""An engine that promises what it does not hold is left out alone, and taken in again when it is right."""

from array import array
from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from routing.events.board import State
from routing.events.chain import block_chain
from routing.events.trust import LEAST, PROOF, WINDOW, Trust
from routing.precise import Precise
from routing.types import Prompt
from tests.routing.events.memory import Memory

BLOCK = 16


def test_one_that_promises_too_much_is_left_out_alone_and_may_come_back() -> None:
    trust = Trust()
    for n in range(LEAST):
        assert trust.told(1, 1000, 1000, BLOCK)
        assert trust.told(2, 1000, 0, BLOCK) is (n < LEAST - 1)
    assert trust.distrusted == {2} and trust.switches == 1
    for n in range(WINDOW):
        assert trust.told(2, 1000, 1000, BLOCK) is (n == WINDOW - 1)
    assert not trust.distrusted and trust.switches == 2


def test_too_little_and_a_block_or_two_too_much_are_no_reason() -> None:
    trust = Trust()
    for _ in range(10 * WINDOW):
        assert trust.told(1, 0, 5000, BLOCK) and trust.told(1, 1000 + 2 * BLOCK, 1000, BLOCK)


def test_one_that_left_is_another_one_when_it_comes_back() -> None:
    trust = Trust()
    for _ in range(LEAST):
        trust.told(2, 1000, 1000, BLOCK)
        trust.told(1, 1000, 0, BLOCK)
    assert trust.distrusted == {1}
    trust.keep({2})
    assert trust.told(1, 1000, 0, BLOCK) and not trust.distrusted


def test_where_all_are_wrong_it_is_no_engines_fault() -> None:
    trust = Trust()
    for _ in range(10 * WINDOW):
        assert trust.told(1, 1000, 0, BLOCK) and trust.told(2, 1000, 0, BLOCK)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5000), st.integers(0, 5000)), max_size=200))
def test_only_who_was_wrong_often_is_left_out(answers: list[tuple[int, int, int]]) -> None:
    trust = Trust()
    wrong = dict.fromkeys(range(4), 0)
    for engine, foretold, cached in answers:
        believed = trust.told(engine, foretold, cached, BLOCK)
        wrong[engine] += foretold - cached > 2 * BLOCK
        assert believed is (engine not in trust.distrusted)
        assert believed or wrong[engine] > LEAST / 4


def test_one_engine_that_lies_costs_the_others_nothing() -> None:
    """Through `Precise`, as a worker has it: two engines say that they hold all, and one does."""

    class Known:
        def match(self, blocks: Sequence[int], block_size: int) -> dict[int, int]:
            return dict.fromkeys((1, 2), len(blocks))

        def below(self, blocks: Sequence[int], block_size: int) -> Mapping[int, tuple[int, int]]:
            return {}

        def apart(self, blocks: Sequence[int], block_size: int) -> Mapping[int, Sequence[int]]:
            return {}

        def at_least(self, blocks: Sequence[int], block_size: int) -> dict[int, int]:
            return {}

        def judged(self, engine: int, foretold_tokens: int, cached_tokens: int, block_size: int) -> None:
            raise AssertionError

        def block_sizes(self) -> dict[int, int]:
            return dict.fromkeys((1, 2), BLOCK)

    precise = Precise(Known())
    precise.look()
    tokens = list(range(100 * BLOCK))
    blocks = {BLOCK: array("Q", block_chain(tokens, BLOCK))}
    prompt = Prompt("m", (11, 12), (4000, 8000), 11, 0, True, None)
    for _ in range(3):
        precise.learn(prompt.chain, prompt.ends, len(tokens), blocks, 0)
    asked = 0
    while precise.held(prompt).keys() != {1}:
        for engine, cached in ((1, len(tokens)), (2, 0)):
            precise.held(prompt)
            precise.sent(prompt, engine)
            precise.answered(prompt, engine, len(tokens), cached)
        asked += 1
        assert asked < 100
    for _ in range(300):
        precise.held(prompt)
        precise.sent(prompt, 1)
        precise.answered(prompt, 1, len(tokens), len(tokens))
        assert precise.held(prompt).keys() == {1}
    assert precise.accuracy.is_trusted


def test_an_engine_that_was_heard_too_late_is_routed_by_once_its_answers_find_what_it_said() -> None:
    tokens = list(range(100 * BLOCK))
    chain = block_chain(tokens, BLOCK)
    memory = Memory()
    marked = memory.book().open(7, 0)
    for name in chain:
        marked.add(name)
    marked.tell(State.DEGRADED, BLOCK, 0, len(chain))
    precise = Precise(memory.reader())
    precise.look()
    prompt = Prompt("m", (11, 12), (4000, 8000), 11, 0, True, None)
    for _ in range(3):
        precise.learn(prompt.chain, prompt.ends, len(tokens), {BLOCK: array("Q", chain)}, 0)
    for n in range(PROOF + 5):
        held = precise.held(prompt)
        assert (7 in held) is (n >= PROOF), n
        precise.sent(prompt, 7)
        precise.answered(prompt, 7, len(tokens), len(tokens) - BLOCK)
    assert precise.accuracy.answers == 5  # it is judged as others are from then on
