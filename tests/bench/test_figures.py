"""What the benchmarks conclude from their rounds."""

import pytest

from bench import figures


def test_a_drift_that_both_share_does_not_enter_a_ratio() -> None:
    theirs = [10.0, 20.0, 40.0, 80.0]
    found = figures.ratio([1.5 * value for value in theirs], theirs)
    assert (found.low, found.median, found.high) == pytest.approx((1.5, 1.5, 1.5))


def test_an_interval_holds_its_median_and_no_more_than_was_seen() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 100.0]
    found = figures.median(values)
    assert min(values) <= found.low < found.median < found.high <= max(values)


@pytest.mark.parametrize(
    ("bound", "said"), [(3.0, "holds"), (2.9, "undecided"), (1.0, "undecided"), (0.9, "does not hold")]
)
def test_a_bound_holds_only_when_the_whole_interval_keeps_to_it(bound: float, said: str) -> None:
    assert figures.verdict(figures.Estimate(2.0, 1.0, 3.0), bound) == said


def test_a_table_is_as_wide_as_its_widest_cells() -> None:
    lines = figures.table(["name", "n"], [["a long name", "1"], ["b", "1000"]]).splitlines()
    assert lines == ["name            n", "a long name     1", "b            1000"]


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-1.0, 1.0, "equivalent"),
        (-0.2, 0.1, "equivalent"),
        (-1.1, 0.5, "undecided"),
        (0.5, 1.1, "undecided"),
        (-3.0, 3.0, "undecided"),
        (1.1, 2.0, "differs"),
        (-2.0, -1.1, "differs"),
    ],
)
def test_things_are_equivalent_only_when_the_whole_interval_lies_within_the_bound_on_both_sides(
    low: float, high: float, said: str
) -> None:
    assert figures.equivalence(figures.Estimate((low + high) / 2, low, high), 1.0) == said
