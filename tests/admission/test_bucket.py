"""A token bucket in one number: never more than its burst and its rate allow, nothing lost, nothing made."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.bucket import Bucket

SECOND = 1_000_000_000
STEPS = st.lists(st.tuples(st.integers(0, 3 * SECOND), st.integers(1, 30), st.booleans()), max_size=60)


def made(per_s: float, burst: int) -> tuple[Bucket, memoryview]:
    cells = memoryview(bytearray(16)).cast("q")
    return Bucket(cells, 1, per_s, burst), cells


@given(st.floats(0.1, 1000), st.integers(1, 30), STEPS)
def test_no_interval_sees_more_than_burst_and_rate_allow(
    per_s: float, burst: int, steps: list[tuple[int, int, bool]]
) -> None:
    bucket, _cells = made(per_s, burst)
    taken: list[tuple[int, int]] = []
    now_ns = SECOND
    for gap_ns, amount, _ in steps:
        now_ns += gap_ns
        if bucket.lacks_ns(amount, now_ns) <= 0:
            bucket.take(amount, now_ns)
            taken.append((now_ns, amount))
    for first in range(len(taken)):
        total = 0
        for at_ns, amount in taken[first:]:
            total += amount
            allowed = burst + per_s * (at_ns - taken[first][0]) / SECOND
            assert total <= allowed * (1 + 1e-6) + 1e-6


@given(st.floats(0.1, 1000), st.integers(1, 30), STEPS)
def test_it_does_not_refuse_what_it_owes(
    per_s: float, burst: int, steps: list[tuple[int, int, bool]]
) -> None:
    """The wait it names is enough, and a nanosecond's rounding less is not."""
    bucket, _cells = made(per_s, burst)
    now_ns = SECOND
    for gap_ns, amount, _ in steps:
        now_ns += gap_ns
        lacks_ns = bucket.lacks_ns(amount, now_ns)
        if amount <= burst and lacks_ns > 0:
            assert bucket.lacks_ns(amount, now_ns + lacks_ns - 1) > 0
            now_ns += lacks_ns
            assert bucket.lacks_ns(amount, now_ns) <= 0
        if amount <= burst:
            bucket.take(amount, now_ns)


@given(st.floats(0.1, 1000), st.integers(1, 30), STEPS)
def test_what_is_given_back_at_once_was_never_taken(
    per_s: float, burst: int, steps: list[tuple[int, int, bool]]
) -> None:
    (ours, _), (theirs, _) = made(per_s, burst), made(per_s, burst)
    now_ns = SECOND
    for gap_ns, amount, gives_back in steps:
        now_ns += gap_ns
        ours.take(amount, now_ns)
        if gives_back:
            ours.give(amount)
        else:
            theirs.take(amount, now_ns)
        assert ours.lacks_ns(1, now_ns) == theirs.lacks_ns(1, now_ns)


@given(st.floats(0.1, 1000), st.integers(1, 30), STEPS)
def test_it_never_holds_more_than_its_burst(
    per_s: float, burst: int, steps: list[tuple[int, int, bool]]
) -> None:
    bucket, _cells = made(per_s, burst)
    now_ns = SECOND
    for gap_ns, amount, gives_back in steps:
        now_ns += gap_ns
        (bucket.give(amount) if gives_back else bucket.take(amount, now_ns))
        assert bucket.lacks_ns(burst + 1, now_ns) > 0


def test_a_debt_is_bounded_whatever_an_engine_says_it_read() -> None:
    bucket, _cells = made(1.0, 10)
    bucket.owe(1 << 50, SECOND)
    assert bucket.lacks_ns(10, SECOND) == 11 * 10 * SECOND
    bucket.owe(1 << 50, SECOND)
    assert bucket.lacks_ns(10, SECOND) == 11 * 10 * SECOND
