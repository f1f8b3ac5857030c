"""Blocks without a tokenizer: alike beginnings have alike ids, and a key keeps them from being guessed."""

from hypothesis import given
from hypothesis import strategies as st

from workload.blocks import block_ids, blocks_of

texts = st.binary(max_size=400)
cuts = st.integers(1, 64)


def ids(
    text: bytes, cut: int, count: int | None = None, *, seed: bytes = b"m", key: bytes = b"k"
) -> list[int]:
    return block_ids(text, seed=seed, key=key, cut_bytes=cut, count=count)


@given(texts, texts, texts, cuts)
def test_two_texts_share_exactly_the_whole_blocks_of_what_they_begin_with(
    begin: bytes, one: bytes, other: bytes, cut: int
) -> None:
    first, second = begin + b"1" + one, begin + b"2" + other
    common = len(begin) // cut
    a, b = ids(first, cut), ids(second, cut)
    assert a[:common] == b[:common]
    assert not set(a[common:]) & set(b[common:])


@given(texts, cuts, st.integers(0, 40))
def test_there_are_as_many_as_the_engine_counted_and_the_first_ones_stay(
    text: bytes, cut: int, count: int
) -> None:
    free, told = ids(text, cut), ids(text, cut, count)
    assert len(told) == count and len(free) == blocks_of(len(text), cut)
    assert told[: len(free)] == free[:count]


@given(texts, cuts)
def test_ids_are_numbers_of_31_bits_that_the_key_and_the_model_decide(text: bytes, cut: int) -> None:
    made = ids(b"x" + text, cut)
    assert all(0 <= one < 1 << 31 for one in made) and made == ids(b"x" + text, cut)
    assert made != ids(b"x" + text, cut, key=b"other")
    assert made != ids(b"x" + text, cut, seed=b"other")
