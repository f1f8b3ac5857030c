"""Laws of the block bootstrap: what it holds at one look, and what it refuses to say."""

from math import log
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.stats.bootstrap import (
    HORIZON,
    fewest_pairs,
    quantile_effect,
    quantile_level,
    tail_clusters,
)

Pairs = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]


def pairs(n: int, rng: np.random.Generator, ratio: float = 1.0, per_block: int = 20) -> Pairs:
    """TTFTs: log-normal requests, noise of each arm, and one stall of eight times in a hundred."""
    request = rng.normal(4.0, 0.9, n)

    def arm() -> NDArray[np.float64]:
        stall = np.where(rng.random(n) < 0.01, 8.0, 1.0)
        return np.asarray(np.exp(request + rng.normal(0.0, 0.25, n)) * stall)

    return arm(), arm() * ratio, np.arange(n) // per_block


def test_exchanging_the_arms_negates_the_effect_and_its_interval_exactly() -> None:
    control, candidate, blocks = pairs(1500, np.random.default_rng(1), 1.2)
    for share in (0.5, 0.95, 0.99):
        there = quantile_effect(control, candidate, blocks, share, 0.05)
        back = quantile_effect(candidate, control, blocks, share, 0.05)
        assert there is not None and back is not None
        assert (there.effect, there.lower, there.upper) == (-back.effect, -back.upper, -back.lower)


def test_the_order_of_the_pairs_leaves_no_trace() -> None:
    control, candidate, blocks = pairs(1200, np.random.default_rng(2))
    order = np.random.default_rng(3).permutation(1200)
    once = quantile_effect(control, candidate, blocks, 0.95, 0.05)
    assert once == quantile_effect(control[order], candidate[order], blocks[order], 0.95, 0.05)


def test_a_p99_below_a_thousand_pairs_is_refused() -> None:
    assert fewest_pairs(0.99) == 1000
    assert (fewest_pairs(0.95), fewest_pairs(0.5)) == (200, 20)
    rng = np.random.default_rng(4)
    assert quantile_effect(*pairs(999, rng), 0.99, 0.05) is None
    assert quantile_effect(*pairs(1000, rng), 0.99, 0.05) is not None


@pytest.mark.parametrize(
    ("share", "n"), [(0.995, 2_000), (0.999, 10_000), (0.9999, 100_000), (0.001, 10_000)]
)
def test_further_out_ten_values_beyond_the_percentile_are_needed_too(share: float, n: int) -> None:
    assert fewest_pairs(share) == n
    control, candidate, blocks = pairs(n, np.random.default_rng(5), per_block=n // 20)
    assert quantile_effect(control[1:], candidate[1:], blocks[1:], share, 0.05, resamples=40) is None
    assert quantile_level(candidate[1:], blocks[1:], share, 0.05, resamples=40) is None
    assert quantile_effect(control, candidate, blocks, share, 0.05, resamples=40) is not None


def test_fewer_than_fifteen_blocks_are_refused_however_many_pairs_they_hold() -> None:
    rng = np.random.default_rng(5)
    assert quantile_effect(*pairs(1400, rng, per_block=100), 0.5, 0.05) is None
    assert quantile_effect(*pairs(1500, rng, per_block=100), 0.5, 0.05) is not None


def test_where_failures_reach_the_percentile_nothing_is_said() -> None:
    control, candidate, blocks = pairs(1500, np.random.default_rng(6))
    candidate[::25] = np.inf
    assert quantile_effect(control, candidate, blocks, 0.99, 0.05) is None
    assert quantile_effect(control, candidate, blocks, 0.5, 0.05) is not None


@pytest.mark.parametrize(("share", "n"), [(0.5, 400), (0.95, 400), (0.99, 1000)])
def test_the_interval_holds_a_change_of_a_percentile_at_one_look(share: float, n: int) -> None:
    rng, runs, held = np.random.default_rng(7), 120, 0
    for _ in range(runs):
        found = quantile_effect(*pairs(n, rng, 1.3), share, 0.05, resamples=200)
        held += found is not None and found.lower <= log(1.3) <= found.upper
    assert held / runs >= 0.95 - 3 * (0.05 * 0.95 / runs) ** 0.5


@pytest.mark.parametrize(("share", "n", "runs"), [(0.95, 200, 400), (0.99, 1000, 400), (0.999, 10_000, 40)])
def test_the_interval_of_a_percentile_itself_holds_it_at_one_look_with_ten_values_beyond(
    share: float, n: int, runs: int
) -> None:
    rng, told, held = np.random.default_rng(8), 0, 0
    truth = 4.0 + 0.9 * NormalDist().inv_cdf(share)
    for _ in range(runs):
        values = np.exp(rng.normal(4.0, 0.9, n))
        found = quantile_level(values, np.arange(n) // (n // 50), share, 0.05, resamples=150)
        told += found is not None
        held += found is not None and found.lower <= truth <= found.upper
    assert told / runs >= 0.95  # by chance few values beyond look like a burst at times
    assert held / told >= 0.93


def test_where_failures_come_next_to_the_interval_of_a_percentile_nothing_is_said() -> None:
    values = np.random.default_rng(9).lognormal(4.0, 0.9, 1000)
    blocks = np.arange(1000) // 20
    assert quantile_level(values, blocks, 0.5, 0.05) is not None
    values[:480] = np.inf
    assert quantile_level(values, blocks, 0.5, 0.05) is None


def test_it_says_that_it_is_not_valid_under_peeking() -> None:
    assert "not under peeking" in HORIZON


@pytest.mark.parametrize(("n", "per_block"), [(1000, 7), (1000, 60), (4001, 250)])
@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
def test_it_is_what_drawing_blocks_and_sorting_gives(n: int, per_block: int, share: float) -> None:
    """Pairs drawn block by block, each resample's percentile taken of all of it: slow, and plain."""
    control, candidate, blocks = pairs(n, np.random.default_rng(n + per_block), 1.1, per_block)
    control, candidate = np.ceil(control), np.ceil(candidate)  # many are equal
    found = quantile_effect(control, candidate, blocks, share, 0.05, resamples=60)
    blocks = blocks // tail_clusters(control, candidate, blocks, share).joined
    number = int(blocks[-1]) + 1
    drawn = np.random.default_rng(1).integers(0, number, (60, number))
    effects = []
    for row in drawn:
        rows = np.concatenate([np.flatnonzero(blocks == block) for block in row])
        both = [np.quantile(side[rows], share, method="inverted_cdf") for side in (candidate, control)]
        effects.append(log(both[0]) - log(both[1]))
    assert found is not None
    assert [found.lower, found.upper] == [sorted(effects)[1], sorted(effects)[-2]]
