"""What continues a block is found whatever came and went, in slots that are used again."""

from hypothesis import given
from hypothesis import strategies as st

from routing.events.kin import NONE, Kin


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=60), st.integers(0, 60))
def test_a_line_is_all_that_continues_a_block_the_last_first(acts: list[tuple[bool, int]], late: int) -> None:
    """`late`: what came before it is told at once."""
    parents: list[int] = []
    there: set[int] = set()
    free: list[int] = []
    kin: Kin | None = None
    for number, (comes, place) in enumerate(acts):
        if number == late:
            kin = Kin(there, parents)
        if comes:
            parent = sorted(there)[place % len(there)] if there and place else NONE
            slot = free.pop() if free else len(parents)
            parents[slot : slot + 1] = [parent]
            there.add(slot)
            if kin is not None:
                kin.add(slot, parent)
        else:
            leaves = sorted(there - {parents[slot] for slot in there})
            if leaves:
                slot = leaves[place % len(leaves)]
                there.discard(slot)
                free.append(slot)
                if kin is not None:
                    kin.discard(slot, parents[slot])
    kin = kin or Kin(there, parents)
    for slot in there:
        line = kin.line(slot)
        assert line[-1] == slot and len(line) == len(set(line))
        assert set(line) == {one for one in there if slot in _ancestors(one, parents)}
        assert all(parents[one] in line[place:] for place, one in enumerate(line[:-1]))


def _ancestors(slot: int, parents: list[int]) -> set[int]:
    """With itself."""
    found = set()
    while slot != NONE:
        found.add(slot)
        slot = parents[slot]
    return found
