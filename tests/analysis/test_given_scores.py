"""Laws of scores over given tokens: what counts, and that rare large ones are not missed."""

from math import log, sqrt

import pytest

from analysis.given_scores import counted, given_scores
from analysis.stats.windows import Windows
from bench.verdicts.given import RARE, Rare, misses
from bench.verdicts.ours import ALPHA


def windows_of(series: dict[str, list[float]]) -> Windows:
    windows = Windows(10, 10)
    for at in range(len(next(iter(series.values())))):
        windows.add(at, {name: values[at] for name, values in series.items()})
    windows.finish()
    return windows


@pytest.mark.parametrize("rare", RARE, ids=[rare.name for rare in RARE])
@pytest.mark.parametrize("pairs", [300, 2_000])
def test_the_mean_of_what_counts_is_missed_no_oftener_than_is_claimed(rare: Rare, pairs: int) -> None:
    runs = 60
    missed = sum(misses(rare, pairs, seed)[1] for seed in range(runs))
    assert missed / runs <= ALPHA + 3 * sqrt(ALPHA * (1 - ALPHA) / runs)


def test_the_spread_of_what_was_seen_alone_would_miss_it() -> None:
    assert sum(misses(RARE[2], 300, seed)[0] for seed in range(40)) > 20


def test_no_measure_counts_more_than_its_most_and_what_is_no_logprob_measure_is_left_out() -> None:
    scores = {"kl_k3": 40.0, "kl_top": 0.25, "logprob_gap": -9.0, "flips": 1.0, "exact_match": 1.0}
    assert counted(scores) == {"kl_k3": 1.0, "kl_top": 0.25, "logprob_gap": -log(10.0), "flips": 1.0}


def test_the_excess_is_of_the_differences_whose_spread_may_be_less_than_either_ones() -> None:
    both = [0.5 * (at % 20 < 10) for at in range(3_000)]
    excess = [0.3] * 3_000
    series = {"kl_k3 control": both, "kl_k3 c1": [one + 0.3 for one in both], "kl_k3 excess of c1": excess}
    shown = given_scores(windows_of(series), "c1", 0.05)["kl_k3"]
    assert shown["floor"] == pytest.approx(0.25) and shown["excess"]["value"] == pytest.approx(0.3)
    assert shown["excess"]["upper"] - shown["excess"]["lower"] < 0.9 * (shown["upper"] - shown["lower"])


def test_without_a_floor_there_is_no_excess_and_below_fifteen_windows_no_interval_but_why() -> None:
    shown = given_scores(windows_of({"flips c1": [0.0, 1.0] * 70}), "c1", 0.05)["flips"]
    assert shown["value"] == 0.5 and shown["why"] == "14 windows, 15 needed"
    assert (shown["lower"], shown["upper"], shown["excess"], shown["floor"]) == (None, None, None, None)
