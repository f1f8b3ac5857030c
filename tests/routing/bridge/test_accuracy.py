"""Whether the bridge is believed follows from what engines say."""

from hypothesis import given
from hypothesis import strategies as st

from routing.bridge.accuracy import EDGES, WINDOW, Accuracy

B = 16


@given(st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 9000)), max_size=50))
def test_every_answer_is_in_one_bucket_and_the_sums_are_those_of_the_answers(
    told: list[tuple[int, int]],
) -> None:
    record = Accuracy()
    for predicted, cached in told:
        record.told(predicted, cached, B)
    bounds = [*EDGES, 10**9]
    for at, count in enumerate(record.buckets):
        low = -(10**9) if at == 0 else bounds[at - 1]
        assert count == sum(low < p - c <= bounds[at] for p, c in told)
    assert record.answers == len(told)
    assert record.found_tokens == sum(min(p, c) for p, c in told)
    assert record.too_high == sum(p > c for p, c in told)


def test_too_much_foretold_too_high_ends_the_trust_and_doing_better_for_long_restores_it() -> None:
    record = Accuracy()
    for _ in range(96):
        record.told(64, 64, B)
    for _ in range(7):
        record.told(64 + 3 * B, 64, B)
        assert record.is_trusted  # so few may be chance
    record.told(64 + 3 * B, 64, B)
    assert not record.is_trusted and record.switches == 1
    for _ in range(WINDOW - 1):
        record.told(64, 64, B)
        assert not record.is_trusted
    record.told(64, 64, B)
    assert record.is_trusted and record.switches == 2


def test_too_low_and_a_block_or_two_too_high_cost_no_trust() -> None:
    record = Accuracy()
    for _ in range(WINDOW):
        record.told(0, 4096, B)
        record.told(64 + 2 * B, 64, B)
    assert record.is_trusted


def test_lessons_of_another_length_than_the_engine_says_end_the_trust() -> None:
    record = Accuracy()
    for _ in range(WINDOW):
        record.measured(100, 100)
    assert record.is_trusted and not record.mismatched
    for _ in range(64):
        record.measured(100, 101)
    assert not record.is_trusted and record.mismatched == 64
