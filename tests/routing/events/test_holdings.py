"""What a publisher holds is found by the chain of a prompt's tokens, as far as the engine would find it."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from routing.events.board import State
from routing.events.chain import block_chain
from routing.events.decode import Removed, Stored, decode
from routing.events.holdings import Holdings
from tests.routing.events.memory import Memory, captured, payload, stored

SIZE = 2
PROMPTS = [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]  # blocks by what they say


def tokens(prompt: tuple[int, ...]) -> list[int]:
    return [token for word in prompt for token in (word, 7)]


def own_hash(prompt: tuple[int, ...]) -> int:
    """As an engine names the block that ends this prompt."""
    return hash(("engine", prompt)) & 0xFFFF_FFFF_FFFF_FFFF


class Engine:
    """Which blocks it has computed, each so many times, whatever became of those before."""

    def __init__(self) -> None:
        self.blocks: Counter[tuple[int, ...]] = Counter()

    def found(self, prompt: tuple[int, ...]) -> int:
        """Leading blocks that it would not compute again."""
        for length in range(1, len(prompt) + 1):
            if not self.blocks[prompt[:length]]:
                return length - 1
        return len(prompt)


actions = st.lists(
    st.tuples(
        st.sampled_from(["store", "store", "store", "remove", "cut", "clear"]),
        st.sampled_from(PROMPTS),
        st.integers(1, 3),
    ),
    max_size=60,
)


@given(actions)
def test_what_is_found_is_what_the_engine_would_find(acts: list[tuple[str, tuple[int, ...], int]]) -> None:
    """Removals come in any order, also from the middle, and of blocks that are there twice."""
    memory, engine = Memory(), Engine()
    marked = memory.book().open(4, 0)
    holdings, reader = Holdings(marked, 1000), memory.reader()
    for act, prompt, length in acts:
        part = prompt[:length]
        if act == "store":  # what continues a block that the engine holds, as events are
            begin = engine.found(part)
            parent = own_hash(part[:begin]) if begin else None
            if begin == length:  # computed a second time at the same moment
                begin, parent = length - 1, own_hash(part[:-1]) if length > 1 else None
            names = tuple(own_hash(part[: at + 1]) for at in range(begin, length))
            event = decode(payload(stored(names, parent, tokens(part[begin:]), SIZE))).events[0]
            assert isinstance(event, Stored) and holdings.store(event) is None
            engine.blocks.update(part[: at + 1] for at in range(begin, length))
        elif act == "remove":
            known = engine.blocks[part] > 0
            assert holdings.remove(Removed((own_hash(part),))) == (not known)
            engine.blocks[part] -= known
        elif act == "cut":
            assert holdings.remove(Removed((own_hash(part),), wholly=True)) == 0
            for block in [one for one in engine.blocks if one[:length] == part]:
                del engine.blocks[block]
        else:
            holdings.clear()
            engine.blocks.clear()
        assert holdings.held == sum(1 for count in engine.blocks.values() if count)
        marked.tell(State.EXACT, SIZE, holdings.ghosts, holdings.held)
        for asked in PROMPTS:
            chain = block_chain(tokens(asked), SIZE)
            assert reader.match(chain, SIZE) == {4: engine.found(asked)}


def test_bounds_are_kept_whatever_is_stored_and_removed() -> None:
    """Chains of which only the end stays held leave ghosts, and these count too."""
    holdings = Holdings(Memory().book().open(0, 0), 100)
    said: set[str | None] = set()
    for n in range(50):
        names = tuple(range(n * 10, n * 10 + 10))
        event = decode(payload(stored(names, None, [n] * 20, SIZE))).events[0]
        assert isinstance(event, Stored)
        said.add(holdings.store(event))
        holdings.remove(Removed(names[:-1]))
        assert holdings.held + holdings.ghosts <= 100
    assert said == {None, "too_many_blocks"}
    holdings.clear()
    assert holdings.held == holdings.ghosts == 0


def test_what_contradicts_what_was_said_is_refused() -> None:
    holdings = Holdings(Memory().book().open(0, 0), 100)

    def say(*event: object, **more: object) -> str | None:
        said = decode(payload(stored(*event, **more))).events[0]  # type: ignore[arg-type]
        assert isinstance(said, Stored)
        return holdings.store(said)

    assert say([1, 2], None, [1, 2, 3, 4], 2) is None
    assert say([3], 9, [5, 6], 2) == "unknown_parent"
    assert say([1], None, [5, 6], 2) == "conflict"
    assert say([1], 1, [1, 2], 2) == "conflict"  # a block that continues itself
    assert say([3], None, [1, 2, 3, 4], 4) == "block_size"
    assert say([3], None, [1, 2], 2, group_idx=3, kv_cache_spec_kind="full_attention") == "group"
    assert holdings.held == 2
    assert holdings.remove(Removed((1,), 3)) == 0 and holdings.remove(Removed((9,))) == 1
    assert holdings.held == 2


def test_salt_and_lora_go_on_along_a_chain_and_are_other_blocks() -> None:
    """vLLM tells the salt with a chain's first block only."""
    memory = Memory()
    marked = memory.book().open(1, 0)
    holdings = Holdings(marked, 100)
    said = [
        stored([1], None, [1, 2], 2),
        stored([2], None, [1, 2], 2, extra_keys=[["tenant"]]),
        stored([3], 2, [3, 4], 2),
        stored([4], None, [1, 2], 2, lora_name="ad", extra_keys=[["ad"]]),
        stored([5], None, [1, 2], 2, extra_keys=[[["image", 0]]]),
    ]
    for event in decode(payload(*said)).events:
        assert isinstance(event, Stored) and holdings.store(event) is None
    marked.tell(State.EXACT, 2, 0, holdings.held)
    reader = memory.reader()
    assert reader.match(block_chain([1, 2, 3, 4], 2), 2) == {1: 1}
    assert reader.match(block_chain([1, 2, 3, 4], 2, salt="tenant"), 2) == {1: 2}
    assert reader.match(block_chain([1, 2, 3, 4], 2, lora="ad"), 2) == {1: 1}
    assert reader.match(block_chain([1, 2, 3, 4], 2, salt="other"), 2) == {1: 0}
    assert holdings.held == 5


def test_what_vllm_published_while_it_evicted_leaves_what_it_held() -> None:
    """60 messages with byte hashes, 117 removals, a reset, and a block that it had twice for a while."""
    holdings = Holdings(Memory().book().open(0, 0), 1000)
    held: Counter[int] = Counter()
    twice = False
    for _, _, message in captured("vllm_bytes"):
        for event in decode(message).events:
            if isinstance(event, Stored):
                assert holdings.store(event) is None
                held.update(event.hashes)
                twice = twice or 2 in held.values()
            elif isinstance(event, Removed):
                assert holdings.remove(event) == 0
                held.subtract(event.hashes)
            else:
                holdings.clear()
                held.clear()
            assert holdings.held == sum(1 for count in held.values() if count)
    assert twice and holdings.held
