"""Changes of percentiles come at numbers of pairs fixed beforehand, labelled so, and not before."""

from math import exp
from random import Random

import numpy as np
import pytest
from msgspec.structs import replace

from analysis.columns import Columns
from analysis.horizons import HORIZONS, Horizons
from analysis.measure import PairRecord
from analysis.report import to_json
from tests.analysis.fleet import pair_record
from tests.analysis.trials import named, records, trial_of

ALPHA = 0.05


def filled(n: int, scale: float = 1.2, seed: int = 1, per_window: int = 10) -> Horizons:
    horizons, rng = Horizons("slow"), Random(seed)
    taken = [pair_record(number, {"slow": scale}, rng=rng) for number in range(n)]
    horizons.add(Columns.of(taken), np.arange(n) // per_window)
    return horizons


def test_below_a_thousand_pairs_no_percentile_is_compared_and_the_reason_is_given() -> None:
    said = filled(999).show(ALPHA)["ttft"]
    assert (said["pairs"], said["horizon"]) == (999, None)
    assert said["p99"]["ratio"] is None
    assert said["p99"]["refused"] == "999 pairs: the first figures come at 1000"


def test_at_a_thousand_the_change_is_told_with_its_interval_and_that_it_holds_at_one_look() -> None:
    said = filled(1000).show(ALPHA)["ttft"]
    assert said["horizon"] == 1000 and "not under peeking" in said["holds"]
    for name in ("p50", "p95", "p99"):
        assert said[name]["lower"] < said[name]["ratio"] < said[name]["upper"]
        assert said[name]["lower"] < 1.2 < said[name]["upper"]
        assert said[name]["refused"] is None


def test_until_twice_as_many_pairs_are_there_the_figures_stay_as_they_are() -> None:
    horizons = filled(1000)
    before = horizons.show(ALPHA)["e2e"]["p95"]
    rng = Random(2)
    more = [pair_record(number, {"slow": 1.2}, rng=rng) for number in range(1000, 2000)]
    horizons.add(Columns.of(more[:-1]), np.arange(1000, 1999) // 10)
    assert horizons.show(ALPHA)["e2e"]["p95"] == before
    horizons.add(Columns.of(more[-1:]), np.array([199]))
    assert horizons.show(ALPHA)["e2e"]["horizon"] == 2000
    after = horizons.show(ALPHA)["e2e"]["p95"]
    assert (
        after["ratio"] != before["ratio"]
        and after["upper"] - after["lower"] < before["upper"] - before["lower"]
    )


def test_of_a_change_that_came_in_the_middle_nothing_is_said_but_why() -> None:
    """The percentile is of what came once: another such half would move it."""
    horizons, rng = filled(1000), Random(2)
    more = [pair_record(number, {"slow": 3.0}, rng=rng) for number in range(1000, 2000)]
    horizons.add(Columns.of(more), np.arange(1000, 2000) // 10)
    said = horizons.show(ALPHA)["e2e"]["p95"]
    assert said["ratio"] is None and said["refused"].startswith(
        "answers as slow come in bursts: 2000 pairs, "
    )


def test_few_windows_are_refused_however_many_pairs_they_hold() -> None:
    assert filled(1000, per_window=100).show(ALPHA)["ttft"]["p99"]["refused"] == "10 windows, 15 needed"


def test_where_failures_reach_a_percentile_nothing_is_said_of_it() -> None:
    def failed(record: PairRecord) -> PairRecord:
        answers = (replace(a, fault="timeout") if a.arm == "slow" else a for a in record.answers)
        return replace(record, answers=tuple(answers))

    horizons, rng = Horizons("slow"), Random(3)
    taken = [pair_record(number, {"slow": 1.0}, rng=rng) for number in range(1000)]
    taken[::25] = map(failed, taken[::25])
    horizons.add(Columns.of(taken), np.arange(1000) // 10)
    said = horizons.show(ALPHA)["ttft"]
    assert said["p99"]["refused"] == "failures reach this percentile"
    assert said["p50"]["refused"] is None


def test_a_latency_of_nothing_says_nothing() -> None:
    def at_once(record: PairRecord) -> PairRecord:
        answers = (replace(a, itl_ms=0.0) if a.arm == "slow" else a for a in record.answers)
        return replace(record, answers=tuple(answers))

    horizons, rng = Horizons("slow"), Random(5)
    taken = [pair_record(number, {"slow": 1.0}, rng=rng) for number in range(1100)]
    taken[:100] = map(at_once, taken[:100])
    horizons.add(Columns.of(taken), np.arange(1100) // 10)
    said = horizons.show(ALPHA)
    assert (said["itl"]["pairs"], said["ttft"]["pairs"]) == (1000, 1100)
    assert said["itl"]["p50"]["ratio"] is not None


def test_memory_is_bounded_by_the_last_horizon() -> None:
    horizons, rng = Horizons("slow"), Random(4)
    record = pair_record(0, {"slow": 1.0}, rng=rng)
    whole = HORIZONS[-1] + 500
    for begin in range(0, whole, 1500):  # the last of them passes beyond the last horizon
        numbers = np.arange(begin, min(begin + 1500, whole)) // 100
        horizons.add(Columns.of([record] * len(numbers)), numbers)
    said = horizons.show(ALPHA)["tpot"]
    assert said["pairs"] == said["horizon"] == HORIZONS[-1] == 16_000
    assert said["p50"]["ratio"] == pytest.approx(
        exp(0.0) * record.answer("slow").tpot_ms / record.answer("control").tpot_ms  # type: ignore[union-attr, operator]
    )


def test_while_figures_are_made_those_of_the_horizon_before_are_shown() -> None:
    horizons, rng = filled(1000), Random(2)
    while horizons.prepare(ALPHA):
        pass
    before = horizons.show(ALPHA, at_hand=True)
    assert before == horizons.show(ALPHA) and before["ttft"]["horizon"] == 1000
    more = [pair_record(number, {"slow": 1.2}, rng=rng) for number in range(1000, 2000)]
    horizons.add(Columns.of(more), np.arange(1000, 2000) // 10)
    meanwhile = horizons.show(ALPHA, at_hand=True)
    assert {said["pairs"] for said in meanwhile.values()} == {2000}
    assert [said | {"pairs": 1000} for said in meanwhile.values()] == list(before.values())
    assert horizons.prepare(ALPHA)  # one latency's, and no more at once
    assert [said["horizon"] for said in horizons.show(ALPHA, at_hand=True).values()] == [2000, *[1000] * 4]
    while horizons.prepare(ALPHA):
        pass
    assert horizons.show(ALPHA, at_hand=True) == horizons.show(ALPHA)
    assert horizons.show(ALPHA)["ttft"]["horizon"] == 2000


def test_before_any_figure_is_made_it_is_said_that_they_are_being_made() -> None:
    said = filled(1000).show(ALPHA, at_hand=True)["ttft"]
    assert (said["horizon"], said["p99"]["ratio"]) == (None, None)
    assert said["p99"]["refused"] == "1000 pairs: the first figures are being made"


def test_when_they_were_made_leaves_no_trace_in_the_ranking() -> None:
    taken = records(1150)
    live, asked = trial_of(taken[:1201]), 0
    for record in taken[1201:]:
        live.add(record)
        live.ranking(at_hand=True)
        asked += live.prepare()
    while live.prepare():
        pass
    assert asked > 5
    replayed = trial_of(taken).ranking()
    assert named(replayed, "same")["percentiles"]["ttft"]["horizon"] == 1000
    assert to_json(live.ranking(at_hand=True)) == to_json(replayed)
