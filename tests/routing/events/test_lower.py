"""Of lower tiers it is known how far a prompt reaches in each, by what the engine says of them."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.events.board import State
from routing.events.chain import block_chain
from routing.events.decode import WHOLLY
from routing.events.publisher import Publisher
from routing.events.reader import Reader
from tests.routing.events.memory import Memory, payload, stored

SIZE = 2
PROMPTS = [(a, b, c) for a in range(2) for b in range(2) for c in range(2)]
MEDIUM = {0: "GPU", 1: "CPU", 2: "STORAGE"}
Block = tuple[int, ...]


def tokens(prompt: Block) -> list[int]:
    return [token for word in prompt for token in (word, 7)]


def own_hash(block: Block) -> int:
    return hash(("engine", block)) & 0xFFFF_FFFF_FFFF_FFFF


def kept(block: Block, tier: int, *, bare: bool) -> dict[str, Any]:
    """As vLLM tells it: of lower tiers no more than the hash, unless it is asked to."""
    hashes, parent = [own_hash(block)], own_hash(block[:-1]) if block[1:] else None
    if bare:
        return {**stored(hashes, None, [], 0), "medium": MEDIUM[tier]}
    return {**stored(hashes, parent, tokens(block[-1:]), SIZE), "medium": MEDIUM[tier]}


def gone(block: Block, tier: int) -> dict[str, Any]:
    return {"type": "BlockRemoved", "block_hashes": [own_hash(block)], "medium": MEDIUM[tier]}


class Engine:
    """Which blocks are in which tier; and what is heard of it."""

    def __init__(self) -> None:
        memory = Memory()
        marked = memory.book().open(4, 0)
        self.publisher = Publisher(marked, can_replay=False, most_blocks=1000)
        self.publisher.connected()
        self.reader: Reader = memory.reader()
        self.tiers: Counter[tuple[int, Block]] = Counter()
        self.said = 0
        self.tell()

    def tell(self, *events: dict[str, Any]) -> None:
        self.publisher.heard(self.said, payload(*events))
        self.said += 1

    def reaches(self, prompt: Block, tiers: int) -> int:
        """Leading blocks that are in one of the tiers down to this one."""
        for length in range(1, len(prompt) + 1):
            if not any(self.tiers[tier, prompt[:length]] for tier in range(tiers + 1)):
                return length - 1
        return len(prompt)

    def check(self) -> None:
        for prompt in PROMPTS:
            chain = block_chain(tokens(prompt), SIZE)
            here = self.reader.match(chain, SIZE)[4]
            assert here == self.reaches(prompt, 0)
            host, store = self.reader.below(chain, SIZE).get(4, (0, 0))
            assert max(here, host) == self.reaches(prompt, 1)
            assert max(here, host, store) == self.reaches(prompt, 2)


acts = st.lists(
    st.tuples(
        st.sampled_from(["compute", "compute", "sink", "sink", "drop", "move", "cut"]),
        st.sampled_from(PROMPTS),
        st.integers(1, 3),
        st.sampled_from([0, 1, 1, 2]),
        st.booleans(),
    ),
    max_size=40,
)


@given(acts)
def test_what_is_found_in_a_tier_or_above_is_what_the_engine_would_find(
    acts: list[tuple[str, Block, int, int, bool]],
) -> None:
    """Whatever is computed, kept below as well, moved, evicted from either or cut, from the middle too."""
    engine = Engine()
    for act, prompt, length, tier, bare in acts:
        block = prompt[:length]
        if act == "compute":
            begin = engine.reaches(block, 0)
            for end in range(begin + 1, length + 1):
                engine.tell(kept(block[:end], 0, bare=False))
                engine.tiers[0, block[:end]] = 1
        elif act == "sink" and tier and engine.tiers[0, block] and not engine.tiers[tier, block]:
            engine.tell(kept(block, tier, bare=bare))
            engine.tiers[tier, block] = 1
        elif act == "drop" and engine.tiers[tier, block]:
            engine.tell(gone(block, tier))
            engine.tiers[tier, block] = 0
        elif act == "move":  # to where it is not yet, from wherever it is; only the hash is told
            for here in [one for one in MEDIUM if one != tier and engine.tiers[one, block]][:1]:
                if not engine.tiers[tier, block]:
                    engine.tell(kept(block, tier, bare=True), gone(block, here))
                    engine.tiers[tier, block], engine.tiers[here, block] = 1, 0
        elif act == "cut":
            engine.tell({**gone(block, 0), WHOLLY: True})
            for place in [one for one in engine.tiers if one[1][:length] == block]:
                del engine.tiers[place]
        engine.check()
    if any(tier for tier, _ in +engine.tiers):
        assert engine.publisher.held_below
    assert not engine.publisher.ignored, engine.publisher.ignored
    engine.tell({"type": "AllBlocksCleared"})
    engine.tiers.clear()
    engine.check()


@pytest.mark.parametrize("bare", [True, False])
def test_what_moves_down_is_found_though_its_removal_is_told_first(bare: bool) -> None:
    """An engine tells what left the device, then what its host took, in one message."""
    engine, block = Engine(), PROMPTS[0]
    for end in (1, 2, 3):
        engine.tell(kept(block[:end], 0, bare=False))
        engine.tiers[0, block[:end]] = 1
    engine.tell(gone(block, 0), kept(block, 1, bare=bare))
    engine.tiers[0, block], engine.tiers[1, block] = 0, 1
    engine.check()
    assert engine.publisher.held_below == {1: 3}


def test_what_cannot_be_read_of_a_lower_tier_is_no_doubt_of_the_device() -> None:
    engine, block = Engine(), PROMPTS[0]
    engine.tell(kept(block[:1], 0, bare=False))
    engine.tiers[0, block[:1]] = 1
    engine.tell({**kept(block[:2], 1, bare=False), "token_ids": ["x"]}, kept((9,), 1, bare=True))
    engine.check()
    assert engine.publisher.ignored == {"tier_malformed": 1, "tier_tokenless": 1}


@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize("before", [(), (0,), (0, 1), (0, 1, 2)])
def test_all_forgotten_within_a_message_is_as_if_each_event_had_one_of_its_own(
    before: tuple[int, ...], bare: bool
) -> None:
    """What follows the last clearing counts in every tier, what was before it in none."""
    together, apart = Engine(), Engine()
    for engine in (together, apart):
        for tier in before:
            engine.tell(kept(PROMPTS[0][:1], tier, bare=bare and tier > 0))
    cleared = {"type": "AllBlocksCleared"}
    block, other = PROMPTS[7], PROMPTS[1]
    events = [
        kept(other[:1], 0, bare=False), kept(other[:1], 1, bare=bare), cleared,
        kept(other[:1], 0, bare=False), kept(other[:1], 2, bare=bare), cleared,
        kept(block[:1], 0, bare=False), kept(block[:1], 1, bare=bare),
        kept(block[:2], 0, bare=False), kept(block[:2], 2, bare=bare),
        gone(block[:2], 0),
    ]  # fmt: skip
    together.tell(*events)
    for event in events:
        apart.tell(event)
    for engine in (together, apart):
        engine.tiers.update({(0, block[:1]): 1, (1, block[:1]): 1, (2, block[:2]): 1})
        engine.check()
        assert engine.publisher.state is State.EXACT
        assert not engine.publisher.ignored
    assert together.publisher.held_below == apart.publisher.held_below == {1: 1, 2: 2}
    assert together.publisher.counts["cleared"] == 2


@pytest.mark.parametrize("bare", [True, False])
def test_endless_blocks_below_are_bounded_and_no_doubt_of_the_device(bare: bool) -> None:
    """In each tier as many as on the device; and what is below is not taken for more than it is."""
    memory = Memory()
    publisher = Publisher(memory.book().open(4, 0), can_replay=False, most_blocks=50)
    publisher.connected()
    reader, number = memory.reader(), 0

    def tell(*events: dict[str, Any]) -> None:
        nonlocal number
        publisher.heard(number, payload(*events))
        number += 1

    for n in range(200):  # each is computed, moves down, and is never said to leave
        block = stored([n], None, [n, 7], SIZE)
        below = stored([n], None, [] if bare else [n, 7], 0 if bare else SIZE, medium="CPU")
        tell(block)
        tell(below, {"type": "BlockRemoved", "block_hashes": [n]})
        assert publisher.held == 0 and publisher.held_below[1] <= 50
    assert publisher.state is State.EXACT
    assert publisher.ignored["tier_tokenless" if bare else "tier_too_many_blocks"] > 0
    tell(stored([1000], None, [1000, 7], SIZE))
    assert reader.match(block_chain([1000, 7], SIZE), SIZE) == {4: 1}
    assert reader.below(block_chain([3, 7], SIZE), SIZE)[4][0] == 1
    assert reader.below(block_chain([190, 7], SIZE), SIZE)[4][0] == 0


def test_a_publisher_that_is_gone_leaves_no_row() -> None:
    engine, block = Engine(), PROMPTS[0]
    engine.tell(kept(block[:1], 0, bare=False), kept(block[:1], 1, bare=True), kept(block[:1], 2, bare=True))
    assert sorted(row.tier for row in engine.reader.rows()) == [0, 1, 2]
    engine.publisher.forget()
    assert [row.tier for row in engine.reader.rows()] == [0]


def test_what_moves_up_before_what_it_continues_is_held_only_with_it() -> None:
    engine, block = Engine(), PROMPTS[0]

    def move(length: int, here: int, there: int) -> None:
        engine.tell(kept(block[:length], there, bare=True), gone(block[:length], here))
        engine.tiers[here, block[:length]], engine.tiers[there, block[:length]] = 0, 1
        engine.check()

    for end in (1, 2, 3):
        engine.tell(kept(block[:end], 0, bare=False))
        engine.tiers[0, block[:end]] = 1
    for end in (3, 2, 1):
        move(end, 0, 1)
    assert engine.publisher.held == 0
    for end in (3, 1, 2):
        move(end, 1, 0)
    assert engine.publisher.held == 3 and engine.reaches(block, 0) == 3
    assert not engine.publisher.ignored
