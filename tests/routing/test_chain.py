"""A chain is the same by whichever way its text came."""

from hypothesis import example, given
from hypothesis import strategies as st

from routing.chain import CUT_BYTES, Chain

SIZES = st.integers(0, 5 * CUT_BYTES) | st.integers(1, 5).flatmap(
    lambda cuts: st.integers(cuts * CUT_BYTES - 12, cuts * CUT_BYTES + 2)
)


@given(before=st.binary(max_size=40), front=st.binary(max_size=400), size=SIZES)
@example(before=b"", front=b"", size=0)
@example(before=b"", front=b"ab", size=CUT_BYTES - 2)
@example(before=b"", front=b"ab", size=CUT_BYTES - 1)
@example(before=b"x", front=b"", size=2 * CUT_BYTES)
def test_a_text_behind_a_front_makes_the_chain_of_both_together(
    before: bytes, front: bytes, size: int
) -> None:
    text = bytes((at * 7 + at // 251) % 256 for at in range(size))
    one, other = Chain(b"head", b"key"), Chain(b"head", b"key")
    for chain in (one, other):
        chain.add(before)
    one.add_text(front, text)
    other.add(front + text)
    assert (one.hashes, one.ends, one.link) == (other.hashes, other.ends, other.link)
    one.add(b"after")
    other.add(b"after")
    assert (one.hashes, one.ends) == (other.hashes, other.ends)
