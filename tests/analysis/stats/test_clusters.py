"""Laws of percentiles where slow answers come in bursts: what is told holds, and few bursts tell nothing."""

from math import inf, sqrt

import numpy as np
import pytest

from analysis.stats.bootstrap import fewest_pairs, pairs_needed, tail_clusters
from analysis.stats.clusters import FEWEST_CLUSTERS, Clusters, clusters_of
from bench.verdicts.ours import ALPHA
from bench.verdicts.tails import SHARES, Stalls, arms, missed


def said(burst: int, stalled: float, runs: int, pairs: int = 4_000) -> dict[float, list[bool]]:
    """Of each percentile, of the runs in which its change is told, whether the truth was missed."""
    found: dict[float, list[bool]] = {share: [] for share in SHARES}
    for seed in range(runs):
        for share, one in zip(SHARES, missed(Stalls("", pairs, burst, stalled), seed), strict=True):
            if one is not None:
                found[share].append(one)
    return found


def test_of_five_bursts_nothing_is_said_of_the_tail_they_make_and_what_is_said_holds() -> None:
    runs = 20
    found = said(burst=10, stalled=0.012, runs=runs)
    assert len(found[0.95]) <= runs / 5 and len(found[0.99]) <= runs / 5
    told = [one for every in found.values() for one in every]
    assert len(found[0.5]) > runs / 2
    assert sum(told) / len(told) <= ALPHA + 3 * sqrt(ALPHA * (1 - ALPHA) / len(told))


def test_of_independent_values_all_is_said() -> None:
    runs = 20
    found = said(burst=1, stalled=0.012, runs=runs)
    assert all(len(told) > 0.9 * runs for told in found.values())


@pytest.mark.parametrize("beyond", [0.02, 0.2])
def test_one_burst_is_one_however_many_it_holds(beyond: float) -> None:
    rng = np.random.default_rng(6)
    control, candidate = np.exp(rng.normal(0.0, 0.3, (2, 4_000)))
    candidate[1_000 : 1_000 + int(4_000 * beyond)] *= 8.0
    found = tail_clusters(control, candidate, np.arange(4_000) // 20, 0.95)
    assert found.number < 2.0
    assert pairs_needed(0.95, 4_000, found) >= 20_000


@pytest.mark.parametrize("number", [3, 6])
def test_bursts_all_alike_are_counted(number: int) -> None:
    rng = np.random.default_rng(7)
    values = rng.uniform(1.0, 2.0, 2_000)
    for block in rng.permutation(200)[:number].tolist():
        values[10 * block : 10 * block + 10] += 2.0
    found = clusters_of(np.ones(2_000), values, np.arange(2_000) // 10, 1.0 - number / 200)
    assert found.number == pytest.approx(number, rel=0.4)


def test_independent_values_are_no_clusters() -> None:
    rng = np.random.default_rng(6)
    told = 0
    for _ in range(50):
        control, candidate = np.exp(rng.normal(0.0, 0.3, (2, 1_000)))
        told += tail_clusters(control, candidate, np.arange(1_000) // 10, 0.99).number >= FEWEST_CLUSTERS
    assert told >= 45


def test_where_values_come_by_themselves_as_many_pairs_are_needed_as_ever() -> None:
    assert pairs_needed(0.99, 500, Clusters(1, inf)) == fewest_pairs(0.99) == 1_000
    assert pairs_needed(0.95, 4_000, Clusters(2, 5.0)) == 8_000


def test_exchanging_the_arms_changes_nothing_of_it() -> None:
    control, candidate = arms(Stalls("", 2_000, 10, 0.05), np.random.default_rng(8))
    blocks = np.arange(2_000) // 10
    for share in SHARES:
        assert tail_clusters(control, candidate, blocks, share) == tail_clusters(
            candidate, control, blocks, share
        )


def test_of_no_pairs_nothing_comes_together() -> None:
    none = np.empty(0)
    assert clusters_of(none, none, np.empty(0, dtype=np.intp), 0.95) == Clusters(1, inf)
