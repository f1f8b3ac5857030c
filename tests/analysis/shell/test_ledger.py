"""The books close however often the shadow or the analysis is restarted."""

from hypothesis import given
from hypothesis import strategies as st

from analysis.ledger import Ledger

# Each life of the shadow: steps of (admitted more, of which paired).
_STEP = st.integers(0, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))
_LIVES = st.lists(st.lists(_STEP, min_size=1, max_size=5), min_size=1, max_size=4)


@given(_LIVES, st.integers(0, 3), st.booleans())
def test_books_close_and_never_shrink_over_restarts(
    lives: list[list[tuple[int, int]]], lost: int, restarted: bool
) -> None:
    ledger = Ledger()
    before = 0
    for life in lives:
        admitted = paired = dropped = 0
        for more, fine in life:
            admitted, paired, dropped = admitted + more, paired + fine, dropped + (more - fine) // 2
            ledger.take(admitted, paired, {"arm_error": dropped})
            if restarted:
                ledger = Ledger.from_map(ledger.to_map())
            books = ledger.books()
            rest = books["admitted"] - books["paired"] - sum(books["dropped"].values())
            assert 0 <= rest <= admitted + before
            assert books["admitted"] >= before
            before = books["admitted"]
    paired = ledger.books()["paired"]
    for _ in range(min(lost, paired)):
        ledger.lost_here("inbox_full")
    books = ledger.books()
    assert books["paired"] == paired - min(lost, paired)
    assert books["dropped"].get("inbox_full", 0) == min(lost, paired)


def test_what_a_dead_shadow_had_in_flight_is_dropped_with_a_reason() -> None:
    ledger = Ledger()
    ledger.take(10, 6, {"arm_error": 1})
    ledger.take(2, 2, {})
    assert ledger.books() == {"admitted": 12, "paired": 8, "dropped": {"arm_error": 1, "shadow_restarted": 3}}
