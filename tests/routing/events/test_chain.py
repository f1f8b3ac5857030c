"""The names of blocks: those of Dynamo and SMG, bit for bit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from routing.events.chain import block_chain, continued, packed, scope

tokens = st.lists(st.integers(0, 2**32 - 1), max_size=60)
names = st.text(max_size=8)


def test_blocks_have_dynamos_names() -> None:
    """The constants that Dynamo's own tests (lib/tokens/src/lib.rs) hold for 1..12 in blocks of 4."""
    chain = [14643705804678351452, 4945711292740353085, 12583592247330656132]
    assert block_chain(range(1, 13), 4) == chain
    for start, own in ((5, 16777012769546811212), (9, 483935686894639516)):
        assert block_chain(range(start, start + 4), 4) == [own]


def test_lora_and_salt_change_the_seed_as_dynamos_do() -> None:
    """`compute_salt_hash`: 1337 + xxh3(lora, seed 0) + xxh3(namespace, seed 1), cut to 64 bits."""
    assert scope() == 1337
    both = 1337 + xxh3_64_intdigest(b"adapter", 0) + xxh3_64_intdigest(b"tenant-a", 1)
    assert scope("adapter", "tenant-a") == both % 2**64


@given(tokens, st.integers(1, 8), names, names, st.integers(0, 59))
def test_a_chain_continued_is_the_whole_chain(
    tokens: list[int], size: int, lora: str, salt: str, cut: int
) -> None:
    whole = block_chain(tokens, size, lora=lora, salt=salt)
    assert len(whole) == len(tokens) // size
    cut -= cut % size
    begun = block_chain(tokens[:cut], size, lora=lora, salt=salt)
    rest = continued(begun[-1] if begun else None, scope(lora, salt), packed(tokens[cut:]), size)
    assert begun + rest == whole


@given(st.lists(st.integers(0, 2**32 - 1), min_size=8, max_size=8), names, names, names, names)
def test_equal_tokens_under_another_lora_or_salt_are_other_blocks(
    tokens: list[int], lora: str, salt: str, other_lora: str, other_salt: str
) -> None:
    same = (lora, salt) == (other_lora, other_salt)
    chain = block_chain(tokens, 4, lora=lora, salt=salt)
    other = block_chain(tokens, 4, lora=other_lora, salt=other_salt)
    assert (chain == other) == same and (same or not set(chain) & set(other))


def test_what_is_no_token_has_no_name() -> None:
    for bad in (-1, 2**32):
        with pytest.raises(OverflowError):
            block_chain([bad], 1)
    with pytest.raises(ValueError, match="at least one token"):
        block_chain([1], 0)
