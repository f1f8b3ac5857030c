"""What the bridge promises of a prompt holds of its real tokens."""

from hypothesis import given
from hypothesis import strategies as st

from routing.bridge.learner import Bridge
from tests.routing.bridge.model import BLOCK, Said, blocks_of, encode, prompt_of, tokens_of

TAIL = 7  # START and "assistant", two characters a token, and one that a merge may take

texts = st.text("ab ", min_size=0, max_size=60)
turns = st.lists(st.tuples(texts, texts), min_size=1, max_size=4)
conversations = st.lists(st.tuples(st.sampled_from(["Be brief. " * 9, "Speak. " * 20]), turns), max_size=8)


def prompts_of(system: str, said: list[tuple[str, str]]) -> list[list[Said]]:
    """A conversation's prompts, turn by turn."""
    found: list[list[Said]] = []
    messages: list[Said] = [("system", system)]
    for user, reply in said:
        messages = [*messages, ("user", user)]
        found.append(messages)
        messages = [*messages, ("assistant", reply)]
    return found


def learn(bridge: Bridge, said: list[Said], preface: str = "") -> bool:
    prompt, ids = prompt_of(said), tokens_of(said, preface)
    return bridge.learn(prompt.chain, prompt.ends, len(ids), blocks_of(ids))


def promised(bridge: Bridge, said: list[Said]) -> list[int]:
    prompt = prompt_of(said)
    found = bridge.find(prompt.chain, prompt.ends)
    return list(found.blocks) if found else []


def test_an_epoch_ends_only_where_something_is_forgotten() -> None:
    bridge = Bridge(BLOCK, TAIL)
    bridge.forget()  # as when it is first told what the template does
    assert bridge.epoch == 0
    learn(bridge, [("user", "What is a block?")])
    bridge.forget()
    bridge.forget()
    assert bridge.epoch == 1 and not len(bridge)


def test_a_prompt_learned_is_known_but_for_its_last_token() -> None:
    bridge = Bridge(BLOCK, TAIL)
    said = [("system", "Be brief. " * 20), ("user", "What is a block?")]
    learn(bridge, said)
    ids = tokens_of(said)
    assert promised(bridge, said) == list(blocks_of(ids))[: (len(ids) - 1) // BLOCK]


def test_the_next_turn_is_promised_all_but_the_tail() -> None:
    bridge = Bridge(BLOCK, TAIL)
    first = [("system", "Be brief. " * 20), ("user", "What is a block?")]
    learn(bridge, first)
    found = promised(bridge, [*first, ("assistant", "Sixteen tokens."), ("user", "And a page?")])
    assert len(found) == (len(tokens_of(first)) - TAIL) // BLOCK


@given(conversations)
def test_after_what_parts_was_seen_nothing_is_promised_that_is_not_so(
    talks: list[tuple[str, list[tuple[str, str]]]],
) -> None:
    """Every prompt that was learned twice round is promised a beginning of its own blocks."""
    bridge = Bridge(BLOCK, TAIL)
    prompts = [said for system, turns in talks for said in prompts_of(system, turns)]
    for _ in range(2):
        for said in prompts:
            learn(bridge, said)
    for said in prompts:
        found = promised(bridge, said)
        assert found == list(blocks_of(tokens_of(said)))[: len(found)]


def test_where_two_prompts_part_their_common_blocks_are_promised_to_a_third() -> None:
    bridge = Bridge(BLOCK, TAIL)
    system = ("system", "Speak of blocks, pages and tokens. " * 30)
    for user in ("one thing", "another thing altogether"):
        learn(bridge, [system, ("user", user)])
    third = [system, ("user", "yet one more")]
    found = promised(bridge, third)
    real = list(blocks_of(tokens_of(third)))
    assert found == real[: len(found)]
    assert len(found) * BLOCK >= len(tokens_of([system])) - TAIL - BLOCK


def test_of_tools_alone_nothing_is_promised_until_two_prompts_part_there() -> None:
    """A template may write the system message before the tools: equal tools are no equal beginning."""
    bridge = Bridge(BLOCK, TAIL)
    prompt, ids = prompt_of([("system", "tools " * 99), ("user", "x")]), list(range(400))
    bridge.learn(prompt.chain, prompt.ends, len(ids), blocks_of(ids), front_bytes=prompt.ends[-2])
    found = bridge.find(prompt.chain[:1], prompt.ends[:1])
    assert found is not None and not found.blocks
    other = prompt_of([("system", "tools " * 99), ("user", "y")])
    ids = [1_000, *range(1, 400)]
    assert bridge.learn(other.chain, other.ends, len(ids), blocks_of(ids), front_bytes=other.ends[-2])
    assert bridge.epoch == 0


def test_what_tools_alone_promised_is_lowered_when_a_system_message_stands_before_them() -> None:
    bridge, front = Bridge(BLOCK, TAIL), list(range(100))
    tools = prompt_of([("system", "tools " * 99)]).ends[-1]

    def learn_with_tools(said: str, ids: list[int]) -> bool:
        prompt = prompt_of([("system", "tools " * 99), ("user", said)])
        return bridge.learn(prompt.chain, prompt.ends, len(ids), blocks_of(ids), front_bytes=tools)

    assert learn_with_tools("without a system message", [*front, *range(500, 600)])
    assert learn_with_tools("nor this", [*front, *range(700, 800)])
    asked = prompt_of([("system", "tools " * 99), ("user", "a third")])
    found = bridge.find(asked.chain, asked.ends)
    assert found is not None and list(found.blocks) == list(blocks_of(front))
    assert learn_with_tools("with one", [*range(900, 950), *front])
    found = bridge.find(asked.chain, asked.ends)
    assert found is not None and not found.blocks
    assert bridge.epoch == 0


def test_another_first_block_under_a_known_text_begins_a_new_epoch() -> None:
    bridge = Bridge(BLOCK, TAIL)
    said = [("system", "Be brief. " * 20), ("user", "What is a block?")]
    assert learn(bridge, said, preface="Today is Monday. ")
    grown = [*said, ("assistant", "Sixteen tokens."), ("user", "And a page?")]
    assert not learn(bridge, grown, preface="Today is Tuesday.")
    assert bridge.epoch == 1
    ids = tokens_of(grown, "Today is Tuesday.")
    assert promised(bridge, grown) == list(blocks_of(ids))[: (len(ids) - 1) // BLOCK]
    assert promised(bridge, [("system", "Something else " * 9), ("user", "What is a block?")]) == []


def test_a_prompt_that_has_less_than_was_promised_lowers_the_promise() -> None:
    """A template that rewrites what stood before: the same text, another middle."""
    bridge = Bridge(BLOCK, TAIL)
    first = [("system", "Be brief. " * 20), ("user", "What is a block? " * 9)]
    learn(bridge, first)
    before = len(promised(bridge, [*first, ("assistant", "a"), ("user", "b")]))
    then = [*first, ("assistant", "Sixteen tokens."), ("user", "And a page?")]
    prompt, ids = prompt_of(then), tokens_of(then)
    cut = len(tokens_of(first[:1])) + 10
    ids[cut:] = [7] * (len(ids) - cut)
    bridge.learn(prompt.chain, prompt.ends, len(ids), blocks_of(ids))
    after = promised(bridge, [*first, ("assistant", "a"), ("user", "b")])
    assert len(after) == cut // BLOCK < before
    assert bridge.lowered == 1 and bridge.epoch == 0


def test_what_is_kept_is_bounded() -> None:
    bridge = Bridge(BLOCK, TAIL, most_links=64)
    for number in range(500):
        learn(bridge, [("system", f"{number} " * 40), ("user", "x")])
    assert len(bridge) <= 64 + 2


def test_a_message_whose_end_was_told_is_promised_whole() -> None:
    bridge = Bridge(BLOCK, TAIL)
    said = [("system", "Speak of blocks. " * 20), ("user", "x" * 400)]
    prompt, ids = prompt_of(said), tokens_of(said)
    system = len(tokens_of(said[:1])) - 1 - len(encode("assistant"))
    ends = [(prompt_of(said[:1]).ends[-1], system)]
    bridge.learn(prompt.chain, prompt.ends, len(ids), blocks_of(ids), message_ends=ends)
    assert len(promised(bridge, [said[0], ("user", "another thing")])) == system // BLOCK


def test_of_an_end_that_was_not_told_less_is_promised_than_its_share_of_the_bytes() -> None:
    """The rest may have been denser: here by half again."""
    bridge = Bridge(BLOCK, TAIL)
    said = [("system", "Speak of blocks. " * 20), ("user", "x" * 200)]
    prompt, real = prompt_of(said), len(tokens_of(said[:1])) - 1 - len(encode("assistant"))
    ids = tokens_of(said) + [7] * 60
    bridge.learn(prompt.chain, prompt.ends, len(ids), blocks_of(ids))
    found = len(promised(bridge, [said[0], ("user", "another thing")]))
    assert real * 0.6 < found * BLOCK <= real
