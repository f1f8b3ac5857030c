"""Columns of the load table: one each, kept by who stays, given on only when nobody can still write there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleets.columns import Columns, NoColumnLeftError

PLACES = [("m", f"http://{n}") for n in range(6)]
SETS = st.sets(st.sampled_from(PLACES), max_size=6)


@given(st.lists(st.tuples(SETS, st.booleans(), st.sets(st.integers(0, 11))), max_size=20))
def test_whatever_comes_and_goes_no_column_has_two_meanings(
    steps: list[tuple[set[tuple[str | None, str]], bool, set[int]]],
) -> None:
    busy: set[int] = set()
    columns = Columns(12, lambda column: column not in busy)
    meant: dict[
        int, tuple[str | None, str]
    ] = {}  # by a worker that has not heard, or for a request that runs
    held: dict[tuple[str | None, str], int] = {}
    heard: set[int] = set()  # columns of which every worker knows that they were left
    for wanted, all_hear, busy_now in steps:
        busy = busy_now
        meant = {c: place for c, place in meant.items() if c in busy or c not in heard}
        try:
            proposed = columns.proposed(wanted)
        except NoColumnLeftError:
            continue
        assert proposed.keys() == wanted
        assert len(set(proposed.values())) == len(proposed)
        for place, column in proposed.items():
            assert meant.get(column, place) == place
            assert held.get(place, column) == column
        columns.hold(proposed)
        held = proposed
        meant.update({column: place for place, column in proposed.items()})
        heard -= set(proposed.values())
        if all_hear:
            columns.all_heard()
            heard |= {c for c, place in meant.items() if held.get(place) != c}


def test_a_proposal_changes_nothing() -> None:
    columns = Columns(3, lambda _column: True)
    columns.hold(columns.proposed(PLACES[:2]))
    with pytest.raises(NoColumnLeftError, match="restart"):
        columns.proposed(PLACES[2:6])
    assert columns.proposed(PLACES[:2]) == {PLACES[0]: 0, PLACES[1]: 1}


def test_who_left_may_come_back_to_its_column_and_others_get_it_only_when_it_is_empty() -> None:
    busy = {0}
    columns = Columns(2, lambda column: column not in busy)
    columns.hold(columns.proposed(PLACES[:2]))
    columns.hold(columns.proposed(PLACES[1:2]))
    assert columns.proposed(PLACES[:2]) == {PLACES[0]: 0, PLACES[1]: 1}
    with pytest.raises(NoColumnLeftError):
        columns.proposed(PLACES[1:3])  # not every worker has heard that it left
    columns.all_heard()
    with pytest.raises(NoColumnLeftError):
        columns.proposed(PLACES[1:3])  # and it still has requests
    busy.clear()
    assert columns.proposed(PLACES[1:3]) == {PLACES[1]: 1, PLACES[2]: 0}
