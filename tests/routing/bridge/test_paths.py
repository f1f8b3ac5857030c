"""Block chains are kept once, and give back what was put in."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from routing.bridge.paths import Path
from routing.events.chain import block_chain

tokens = st.lists(st.integers(0, 3), max_size=24)


def chain_of(ids: list[int]) -> "array[int]":
    return array("Q", block_chain(ids, 1))


def common(one: list[int], other: list[int]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


@given(st.lists(tokens, min_size=1, max_size=8), tokens)
def test_a_path_grown_from_another_is_the_chain_it_was_grown_by(
    prompts: list[list[int]], asked: list[int]
) -> None:
    paths: list[tuple[list[int], Path]] = []
    for ids in prompts:
        chain = chain_of(ids)
        if paths:
            last = paths[-1][1]
            paths.append((ids, last.grown(chain, last.shared(chain))))
        else:
            paths.append((ids, Path(None, 0, chain)))
    for ids, path in paths:
        assert len(path) == len(ids)
        for count in range(len(ids) + 2):
            assert path.leading(count) == chain_of(ids[:count])
        assert path.shared(chain_of(asked)) == common(ids, asked)
