"""Blocks are cut by what long prompts tell: no greeting settles a model, and nothing changes it then."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.recording.sizing import GUESS, Sizes
from tests.failures.shadowed import served
from tests.recording.staging import answer, chat, recorded
from tests.support import Engine, answers

TEMPLATE = 12  # tokens that every prompt has
PROMPTS = st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 2_000)), max_size=60)


def of(prompts: Sequence[int], bytes_a_token: float) -> Sizes:
    """What was learned of prompts of so many bytes each, and of their ends."""
    sizes = Sizes({})
    for size in prompts:
        sizes.learn("m", size, TEMPLATE + round(size / bytes_a_token))
    sizes.settle(["m"])
    return sizes


def test_a_greeting_settles_nothing_and_does_not_count_beside_long_prompts() -> None:
    greeted = of([20], 5.0)
    assert greeted.settled == {} and greeted.of("m") == greeted.cut("m", counted=False) == GUESS
    assert greeted.cut("m", counted=True) < GUESS  # whatever goes on from it begins with all its blocks
    assert of([20, 3_000, 9_000, 9_000], 5.0).of("m") == pytest.approx(5.0, rel=0.03)
    assert of([20] * 40 + [4_500], 5.0).of("m") == pytest.approx(5.0, rel=0.03)


def test_however_many_names_clients_write_what_is_learned_is_bounded() -> None:
    sizes = Sizes({})
    for number in range(5_000):
        sizes.learn(f"m{number}", 50_000, 10_000)
    assert len(sizes.settled) == 1_000 and sizes.of("m4999") == GUESS


def test_an_image_that_is_many_tokens_and_no_text_changes_nothing() -> None:
    sizes = Sizes({})
    for size, tokens in ((90, 2_000), (3_000, 612), (90, 2_000), (3_000, 612)):
        sizes.learn("m", size, tokens)
    sizes.settle(["m"])
    assert sizes.of("m") == pytest.approx(3_000 / 612, abs=0.001)


@given(PROMPTS, PROMPTS, st.booleans())
def test_what_is_settled_never_changes_and_is_told_at_once(
    first: list[tuple[int, int]], then: list[tuple[int, int]], ended: bool
) -> None:
    sizes = Sizes({})
    for size, tokens in first:
        assert sizes.learn("m", size, tokens) == ("m" in sizes.settled)
    if ended:
        sizes.settle(["m"])
    before = dict(sizes.settled)
    for size, tokens in then:
        sizes.learn("m", size, tokens)
    sizes.settle(["m"])
    assert before.items() <= sizes.settled.items()
    assert all(1.0 <= ratio <= 16.0 for ratio in sizes.settled.values())


def test_each_model_has_its_own() -> None:
    sizes = Sizes({"old": 3.5})
    sizes.learn("a", 30_000, 10_000)
    sizes.learn("b", 30_000, 6_000)
    assert (sizes.of("a"), sizes.of("b"), sizes.of("old"), sizes.of("new")) == (3.0, 5.0, 3.5, GUESS)


def test_a_prompt_is_the_same_blocks_after_a_restart_and_a_greeting(tmp_path: Path) -> None:
    """Whatever is asked first, then: the folder knows how long tokens are."""
    long, other = "the same words as ever " * 150, "something else was said " * 150

    async def run(*prompts: str) -> list[list[int]]:
        engine = Engine(answers(*answer("one two", 700, 2)))
        async with recorded(tmp_path, engine, block_tokens=16) as there:
            for prompt in prompts:
                assert await served(there.gateway, chat(prompt))
            return [row.hash_ids for row in await there.ended()]

    async def scene() -> None:
        first = await run(long, other)
        denser = ["hi", *(f"{n} and many more bytes a token " * 300 for n in range(3))]
        both = await run(*denser, other, long)  # and what the folder had
        assert len(first) == 2 and len(both) == 8
        assert [both.count(ids) for ids in first] == [2, 2]

    asyncio.run(scene())
    assert len({sidecar_of(path) for path in tmp_path.glob("*Z.json")}) == 1


def sidecar_of(path: Path) -> str:
    told = path.read_text()
    return told[told.index("bytes_per_token") :]


def test_what_lies_beside_and_is_none_of_ours_is_learned_nothing_from(tmp_path: Path) -> None:
    (tmp_path / "20200101T000000Z.json").write_text('{"bytes_per_token": {"m": 900}}')
    (tmp_path / "20200102T000000Z.json").write_bytes(b"\xff{")

    async def scene() -> None:
        async with recorded(tmp_path, Engine(answers(*answer("x", 700, 2)))) as there:
            assert await served(there.gateway, chat("hi"))
            assert len(await there.ended()) == 1

    asyncio.run(scene())
    told = [path.read_text() for path in tmp_path.glob("*Z.json") if not path.name.startswith("2020")]
    assert len(told) == 1 and '"bytes_per_token": {}' in told[0]
