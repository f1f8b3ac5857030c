"""Laws of a trial: what it says of records, when, and that it always says the same."""

import json
from collections.abc import Callable
from dataclasses import replace as changed
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from analysis.measure import PairRecord
from analysis.packed import packed, unpacked
from analysis.ranking import Trial
from analysis.spec import ExperimentSpec
from tests.analysis.fleet import MS, answer_measure, pair_record
from tests.analysis.trials import (
    CALIBRATION,
    PACES,
    SPEC,
    altered,
    check,
    labels,
    named,
    ranked,
    records,
    trial_of,
)


def test_calibration_ends_when_both_its_seconds_and_its_pairs_have_passed() -> None:
    taken = records(0)
    assert trial_of(taken[:200]).phase == "calibration"
    assert trial_of(taken).phase == "live"
    many = ExperimentSpec("trial", "fleet", tuple(PACES), calibration_s=1.0, calibration_pairs=150)
    assert trial_of(taken[:149], many).phase == "calibration"
    assert trial_of(taken[:150], many).phase == "live"


def test_while_calibrating_nothing_is_said() -> None:
    ranking = ranked(records(0)[:100])
    assert set(labels(ranking).values()) == {"UNDECIDED"}
    assert ranking["window_s"] is None
    assert 0.4 < ranking["calibration"]["progress"] < 0.6
    assert not ranking["decided"]


def test_the_quick_the_slow_and_the_same_are_told_apart_and_ranked() -> None:
    ranking = ranked(records(1500))
    assert labels(ranking) == {"quick": "FASTER", "same": "EQUIVALENT", "slow": "SLOWER"}
    assert [(c["name"], c["rank"]) for c in ranking["candidates"]] == [("quick", 1), ("same", 2), ("slow", 3)]
    assert ranking["decided"]
    for name, pace in PACES.items():
        verdict = named(ranking, name)["verdicts"]["tpot"]
        assert verdict["lower"] < pace < verdict["upper"]
        assert verdict["withheld"] is None
        assert verdict["progress"] == 1.0
    assert "quick is 24.9% faster per token" in ranking["summary"]


def test_a_candidate_is_promotable_once_it_is_faster_without_assumptions() -> None:
    taken = records(3000)
    sooner = named(ranked(taken[: CALIBRATION + 600]), "quick")["verdicts"]["tpot"]
    later = named(ranked(taken), "quick")["verdicts"]["tpot"]
    assert (sooner["label"], sooner["promotable"]) == ("FASTER", False)
    assert (later["label"], later["promotable"]) == ("FASTER", True)


def test_nothing_is_decided_before_fifteen_windows() -> None:
    taken = records(400)
    for end in range(CALIBRATION, len(taken), 20):
        ranking = ranked(taken[:end])
        if ranking["windows"] < 15:
            assert set(labels(ranking).values()) == {"UNDECIDED"}
            assert check(ranking, "enough_units") is None


def test_progress_never_falls_to_a_decision_and_is_1_with_it() -> None:
    shares = [
        named(ranked(records(live)), "quick")["verdicts"]["tpot"]["progress"] for live in (60, 150, 250, 500)
    ]
    assert shares == sorted(shares)
    assert 0.0 < shares[0] < 1.0
    assert shares[-1] == 1.0


def test_the_same_records_give_the_same_ranking_byte_for_byte() -> None:
    taken = records(400)
    once, again = Trial(SPEC), Trial(SPEC)
    for number, record in enumerate(taken):
        once.add(record)
        again.add(unpacked(packed(record)))
        if number % 37 == 0:
            again.ranking()  # looking changes nothing
    assert json.dumps(once.ranking(), allow_nan=False) == json.dumps(again.ranking(), allow_nan=False)


def test_the_order_of_arrival_within_a_window_does_not_matter() -> None:
    taken = records(400)
    window_ns = 2_000 * MS
    shuffled = sorted(taken[CALIBRATION:], key=lambda r: (r.at_ns // window_ns, Random(r.id).random()))
    assert ranked(taken) == ranked(taken[:CALIBRATION] + shuffled)


def test_a_logged_calibration_replays() -> None:
    taken = records(400)
    live = trial_of(taken)
    replayed = Trial(SPEC)
    for record in taken[:CALIBRATION]:
        replayed.add(record)
    assert live.calibration is not None
    replayed.calibrate(json.loads(json.dumps(live.calibration)))
    for record in taken[CALIBRATION:]:
        replayed.add(record)
    assert replayed.ranking() == live.ranking()


def test_records_of_the_other_phase_are_counted_and_not_used() -> None:
    taken = records(300)
    stray = pair_record(9999, PACES, phase="calibration", rng=Random(2), at_ns=taken[-1].at_ns)
    plain, with_stray = ranked(taken), ranked([*taken, stray])
    assert with_stray["unused_pairs"] == plain["unused_pairs"] + 1
    assert with_stray["candidates"] == plain["candidates"]


def test_exchanging_control_and_candidate_negates_every_estimate() -> None:
    def swap(record: PairRecord) -> PairRecord:
        other = {"control": "quick", "quick": "control"}
        return replace(record, answers=tuple(replace(a, arm=other.get(a.arm, a.arm)) for a in record.answers))

    spec = ExperimentSpec("trial", "fleet", ("quick",))
    there, back = ranked(records(400), spec), ranked(records(400, swap), spec)
    for latency, verdict in named(there, "quick")["verdicts"].items():
        swapped = named(back, "quick")["verdicts"][latency]
        assert (verdict["label"], swapped["label"]) == ("FASTER", "SLOWER")
        assert verdict["ratio"] * swapped["ratio"] == pytest.approx(1.0, rel=1e-12)
        assert verdict["lower"] * swapped["upper"] == pytest.approx(1.0, rel=1e-12)


def test_a_candidate_that_drops_its_slowest_answers_does_not_look_faster() -> None:
    def drop(record: PairRecord) -> PairRecord:
        answer = record.answer("same")
        slow = answer is not None and answer.tpot_ms is not None and answer.tpot_ms > 20.0 * 1.085
        lost = {"fault": "timeout", "ttft_ms": None, "itl_ms": None, "tpot_ms": None, "e2e_ms": None}
        return altered(record, "same", **lost) if slow else record

    same = named(ranked(records(1500, drop)), "same")
    assert 0.03 < same["errors"] / same["n"] < 0.07
    assert same["verdicts"]["tpot"]["ratio"] > 1.0
    assert same["verdicts"]["tpot"]["label"] != "FASTER"


def test_a_candidate_that_often_fails_is_slower_however_fast_it_answers_else() -> None:
    def fail(record: PairRecord) -> PairRecord:
        if int(record.id[1:]) % 5 > 1:
            return record
        return altered(record, "quick", fault="refused", tpot_ms=None, e2e_ms=None)

    ranking = ranked(records(400, fail))
    assert labels(ranking)["quick"] == "SLOWER"
    assert named(ranking, "quick")["faults"] == {"refused": 160}
    assert check(ranking, "errors") is False
    assert labels(ranking)["slow"] == "SLOWER"  # another's failures withhold nothing


def test_a_decided_label_stays_and_is_withheld_when_the_effect_turns() -> None:
    taken = records(400)
    rng = Random(5)
    begin = len(taken)
    turned = [pair_record(begin + n, {**PACES, "quick": 1.6}, rng=rng) for n in range(2500)]
    assert labels(ranked(taken))["quick"] == "FASTER"
    verdict = named(ranked(taken + turned), "quick")["verdicts"]["tpot"]
    assert verdict["ratio"] > 1.0
    assert verdict["label"] == "UNDECIDED"
    assert "not steady" in verdict["withheld"]


def test_answers_in_one_piece_are_ranked_end_to_end() -> None:
    def whole(record: PairRecord) -> PairRecord:
        nothing: dict[str, Any] = {"streamed": False, "ttft_ms": None, "itl_ms": None, "tpot_ms": None}
        return replace(record, answers=tuple(replace(a, **nothing) for a in record.answers))

    ranking = ranked([whole(record) for record in records(900)])
    assert [c["name"] for c in ranking["candidates"]] == ["quick", "same", "slow"]
    assert labels(ranking, "e2e")["quick"] == "FASTER"
    assert named(ranking, "quick")["verdicts"]["tpot"]["ratio"] is None
    assert named(ranking, "quick")["ttft_ms"]["p50"] is None
    assert "end to end" in ranking["summary"]


def outputs_of(floor: float, divergence: Callable[[Random], float], pairs: int = 900) -> str:
    rng = Random(11)
    taken = []
    for record in records(pairs):
        if record.phase != "calibration":
            record.outputs["quick"] = {"first_divergence": divergence(rng)}
        elif floor:
            record.outputs["control"] = {"first_divergence": float(rng.random() < floor)}
        taken.append(record)
    found: str = named(ranked(taken), "quick")["outputs"]["label"]
    return found


def test_outputs_are_judged_beyond_the_controls_own_floor() -> None:
    assert outputs_of(0.0, lambda rng: 0.0, pairs=6_500) == "SAME"
    assert outputs_of(0.0, lambda rng: 0.0) == "UNDECIDED"
    assert outputs_of(0.0, lambda rng: float(rng.random() < 0.3)) == "DIVERGES"
    assert outputs_of(0.3, lambda rng: float(rng.random() < 0.3)) == "UNDECIDED"
    assert outputs_of(0.2, lambda rng: 1.0) == "DIVERGES"
    assert outputs_of(0.0, lambda rng: 0.0, pairs=60) == "UNDECIDED"


def test_production_is_only_observed() -> None:
    taken = records(300)
    ranking = ranked(taken)
    assert ranking["production"]["observed_only"] is True
    assert ranking["production"]["n"] == 300
    assert ranking["production"]["ttft_ms"]["p50"] == 200.0


def test_a_p99_below_a_thousand_answers_is_refused() -> None:
    assert named(ranked(records(900)), "quick")["tpot_ms"]["p99"] is None
    assert named(ranked(records(1000)), "quick")["tpot_ms"]["p99"] > 15.0


def test_slos_count_failures_as_misses() -> None:
    spec = ExperimentSpec("trial", "fleet", ("quick",), slo_ttft_ms=500.0, slo_tpot_ms=50.0)
    taken = records(200, lambda r: altered(r, "quick", fault="timeout") if int(r.id[1:]) % 4 == 0 else r)
    quick = named(ranked(taken, spec), "quick")
    assert quick["slo_met"] == pytest.approx(0.75)
    assert named(ranked(taken), "quick")["slo_met"] is None


def test_a_trial_without_records_ranks_too() -> None:
    ranking = Trial(SPEC).ranking()
    json.dumps(ranking, allow_nan=False)
    assert (ranking["pairs"], ranking["phase"], ranking["elapsed_s"]) == (0, "calibration", 0.0)


def test_a_calibration_ended_by_hand_without_pairs_still_works() -> None:
    trial = Trial(SPEC)
    trial.calibrate()
    for record in records(300)[CALIBRATION:]:
        trial.add(record)
    ranking = trial.ranking()
    assert check(ranking, "calibrated") is False
    assert ranking["windows"] > 0


def test_a_duplicate_arm_name_of_nobody_is_ignored() -> None:
    taken = [replace(r, answers=(*r.answers, answer_measure("stranger", r.at_ns))) for r in records(300)]
    assert {c["name"] for c in ranked(taken)["candidates"]} == set(PACES)


def test_a_calibration_that_goes_on_tells_why_until_when_and_for_how_long() -> None:
    same = {"control": {"first_divergence": 0.0}}
    taken = [replace(record, outputs=same) for record in records(0)[:150]]
    ranking = ranked(taken, changed(SPEC, calibration_s=0.0))
    assert ranking["phase"] == "calibration"
    assert "150 of 200 pairs, about 5 s more as they come now" in ranking["summary"]
    assert "it goes on, to 500 pairs at most, for its answers are all alike so far" in ranking["summary"]
    early = ranked(taken[:50], changed(SPEC, calibration_s=0.0))
    assert "50 of 100 pairs" in early["summary"] and "goes on" not in early["summary"]
