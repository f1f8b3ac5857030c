"""What is worth learning, and how much of it at a time."""

from hypothesis import given
from hypothesis import strategies as st

from routing.bridge.novelty import LEAST_NOVEL_BYTES, LONG_BYTES, NOVEL_BYTES, Budget


@given(
    st.floats(1.0, 1e6),
    st.lists(st.tuples(st.integers(0, LONG_BYTES + 9), st.floats(0, 10)), max_size=80),
)
def test_no_more_is_taken_than_the_rate_and_one_burst(rate: float, asked: list[tuple[int, float]]) -> None:
    budget, now_s, taken = Budget(rate, 0.0), 0.0, 0
    for size, pause_s in asked:
        now_s += pause_s
        if budget.refusal(size, size, now_s) is None:
            taken += size
    assert taken <= max(4 * rate, LONG_BYTES) + rate * now_s + 1


def test_what_is_known_or_too_long_is_not_taken() -> None:
    budget = Budget(1e6, 0.0)
    assert budget.refusal(LEAST_NOVEL_BYTES - 1, 1000, 0.0) == "known"
    assert budget.refusal(LONG_BYTES + 1, LONG_BYTES + 1, 0.0) == "long"


def test_with_little_budget_left_only_what_is_really_new_is_taken() -> None:
    budget = Budget(1000.0, 0.0)
    assert budget.refusal(NOVEL_BYTES, 1000, 0.0) is None
    assert budget.refusal(LONG_BYTES // 2, LONG_BYTES // 2, 0.0) is None
    assert budget.refusal(NOVEL_BYTES, 1000, 0.0) == "little"
    assert budget.refusal(NOVEL_BYTES + 1, 1000, 0.0) is None
    assert budget.refusal(LONG_BYTES // 4, LONG_BYTES // 4, 0.0) is None
    assert budget.refusal(NOVEL_BYTES + 1, 4000, 0.0) == "little"
    assert budget.refusal(NOVEL_BYTES + 1, 1000, 0.0) is None
    assert budget.refusal(LONG_BYTES, LONG_BYTES, 0.0) == "budget"
    assert budget.refusal(NOVEL_BYTES, 1000, 100.0) is None
