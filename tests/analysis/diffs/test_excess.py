"""How answers part from the control's stands beside how its own part, with what is beyond that."""

from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from analysis.calibration import Calibration, floor_of_hazard
from analysis.diffs.by_length import BANDS, NAMES, band_of
from analysis.diffs.hazard import HAZARD, hazard_interval, linearised
from analysis.measure import PairRecord
from analysis.report import render_html, render_text
from analysis.spec import ExperimentSpec
from analysis.stats.windows import Windows
from tests.analysis.fleet import pair_record
from tests.analysis.trials import named, trial_of

SPEC = ExperimentSpec("trial", "fleet", ("quick",), calibration_s=19.9, calibration_pairs=200)
CALIBRATION, LIVE = 200, 3000
HAZARDS = {"control": 0.001, "quick": 0.01}
LENGTHS = (10, 40, 200)
LATE = 0.05, 0.20  # how often the control itself, and the candidate, are cut by length


def parted(record: PairRecord, rng: Random) -> PairRecord:
    """The pair with a length of the control's answer, and where the others part from it, drawn."""
    (arm,) = record.outputs
    length, hazard = rng.choice(LENGTHS), HAZARDS[arm]
    at = int(rng.expovariate(1.0) / -np.log1p(-hazard)) + 1
    same = float(at > length)
    late = rng.random() < LATE[arm == "quick"]
    other = ("quick", 0) if arm == "quick" else ("control", 1)
    answers = tuple(
        replace(
            one,
            completion_tokens=length,
            finish_reason="length" if late and (one.arm, one.twin) == other else "stop",
        )
        for one in record.answers
    )
    scores = {**record.outputs[arm], "exact_match": same}
    return replace(
        record, answers=answers, outputs={arm: scores}, compared_tokens={arm: float(min(at, length))}
    )


@cache
def drawn() -> dict[str, Any]:
    rng = Random(5)
    taken = []
    for n in range(CALIBRATION + LIVE):
        phase = "calibration" if n < CALIBRATION else "live"
        taken.append(parted(pair_record(n, {"quick": 1.0}, phase=phase, rng=rng), rng))
    ranking = trial_of(taken, SPEC).ranking()
    assert ranking["phase"] == "live"
    return ranking


def diffs() -> dict[str, Any]:
    found: dict[str, Any] = named(drawn(), "quick")["diffs"]
    return found


def test_the_hazard_beyond_the_controls_own_is_told_with_an_interval_that_has_the_truth() -> None:
    hazard = diffs()["hazard"]
    assert hazard["value"] == pytest.approx(HAZARDS["quick"], rel=0.1)
    assert hazard["floor"] == pytest.approx(HAZARDS["control"], rel=0.5)
    beyond = hazard["excess"]
    true = HAZARDS["quick"] - HAZARDS["control"]
    assert 0.0 < beyond["lower"] < true < beyond["upper"]
    assert beyond["lower"] < hazard["lower"] and hazard["why"] is None


def test_exact_match_is_told_by_length_each_band_beside_its_own_floor() -> None:
    bands = diffs()["by_length"]
    assert [band["tokens"] for band in bands] == [NAMES[0], NAMES[1], NAMES[2]]
    assert sum(band["pairs"] for band in bands) == LIVE
    for band, length in zip(bands, LENGTHS, strict=True):
        own, theirs = ((1.0 - HAZARDS[arm]) ** length for arm in ("control", "quick"))
        assert band["value"] == pytest.approx(theirs, abs=0.05)
        assert band["excess"]["lower"] < theirs - own < band["excess"]["upper"]
    assert bands[2]["excess"]["upper"] < 0.0  # the longest are surely less often the same


def test_each_pair_of_finish_reasons_has_its_share_its_floor_and_what_is_beyond_it() -> None:
    rows = {(row["control"], row["candidate"]): row for row in diffs()["finish_reasons"]}
    assert set(rows) == {("stop", "stop"), ("stop", "length")}
    cut = rows["stop", "length"]
    assert cut["share"] == cut["answers"] / LIVE == pytest.approx(LATE[1], abs=0.03)
    assert cut["floor"] == pytest.approx(LATE[0], abs=0.04)
    assert cut["excess"] == pytest.approx(cut["share"] - cut["floor"])
    assert sum(row["excess"] for row in rows.values()) == pytest.approx(0.0)
    assert sum(row["answers"] for row in rows.values()) == LIVE


def test_a_reason_that_only_the_control_itself_ended_with_is_a_row_too() -> None:
    rng = Random(1)
    taken = [pair_record(n, {"quick": 1.0}, phase="calibration", rng=rng) for n in range(CALIBRATION)]
    odd = replace(taken[0], answers=tuple(replace(one, finish_reason="eos") for one in taken[0].answers))
    live = [pair_record(CALIBRATION + n, {"quick": 1.0}, rng=rng) for n in range(50)]
    ranking = trial_of([odd, *taken[1:], *live], SPEC).ranking()
    (row,) = [one for one in named(ranking, "quick")["diffs"]["finish_reasons"] if one["control"] == "eos"]
    assert (row["answers"], row["share"], row["floor"]) == (0, 0.0, 1 / CALIBRATION)
    assert row["excess"] == -1 / CALIBRATION


def test_the_hazards_interval_has_the_truth_at_every_look_also_where_answers_part_in_runs() -> None:
    missed = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        tokens = rng.integers(1, 200, 2400).astype(float)
        part = np.repeat(rng.random(240) < 0.2, 10)  # a fifth of the runs part in half of their answers
        diverged = (part & (rng.random(2400) < 0.5)).astype(float)
        compared = np.where(diverged > 0, np.ceil(tokens / 2), tokens)
        true = 0.1 / (0.9 * 100.0 + 0.1 * 50.25)
        windows, wrong = Windows(8, 8), False
        for begin in range(0, 2400, 80):
            part_of = slice(begin, begin + 80)
            values = {"diverged quick": diverged[part_of], "compared_tokens quick": compared[part_of]}
            windows.add_many(np.arange(begin, begin + 80), values, lambda: None)
            found, units = hazard_interval(windows, "quick", 0.05)
            if found is not None and units >= 15:
                wrong = wrong or not found.lower <= true <= found.upper
        missed += wrong
    assert missed <= 2


def test_each_values_residual_is_by_how_much_the_ratio_moves_as_that_value_weighs_more() -> None:
    diverged, tokens = np.array([0.0, 1.0, 0.5, 0.0]), np.array([40.0, 3.0, 20.0, 7.0])
    h, residuals, per_token = linearised(diverged, tokens)
    assert h == pytest.approx(1.5 / 70.0) and per_token == pytest.approx(4 / 70.0)
    for at, residual in enumerate(residuals):
        weights = np.ones(4)
        weights[at] += 1e-6
        moved = float((weights @ diverged) / (weights @ tokens)) - h
        assert residual == pytest.approx(4 * moved / 1e-6, rel=1e-3)


def test_of_answers_that_are_all_alike_the_hazard_has_an_interval_that_shrinks() -> None:
    uppers = []
    for units in (20, 200):
        windows, pairs = Windows(8, 8), 8 * units
        values = {"diverged quick": np.zeros(pairs), "compared_tokens quick": np.full(pairs, 50.0)}
        windows.add_many(np.arange(pairs), values, lambda: None)
        found, _ = hazard_interval(windows, "quick", 0.05)
        assert found is not None and found.mean == 0.0
        uppers.append(found.upper)
    assert 25 / (8 * 199) / 50 < uppers[1] < uppers[0] / 5


def test_what_the_calibration_fixed_is_in_the_log_and_of_a_log_without_it_there_is_no_excess() -> None:
    trial = trial_of(
        [parted(pair_record(n, {}, phase="calibration", rng=Random(n)), Random(n)) for n in range(200)], SPEC
    )
    found = trial.calibrate()
    assert Calibration.from_map(found).floor.keys() >= {HAZARD, f"exact_match {NAMES[0]}"}
    old = {**found, "floor": {k: v for k, v in found["floor"].items() if k != HAZARD and "-" not in k}}
    rng = Random(7)
    live = [parted(pair_record(n, {"quick": 1.0}, rng=rng), rng) for n in range(200, 600)]
    again = trial_of([], SPEC)
    again.calibrate(old)
    for record in live:
        again.add(record)
    said = named(again.ranking(), "quick")["diffs"]
    for one in (said["hazard"], *said["by_length"]):
        assert one["value"] is not None and one["floor"] is None and one["excess"] is None


def test_a_floor_is_there_only_where_the_control_was_compared_with_itself() -> None:
    assert floor_of_hazard([], 0.025) == {}
    (spread,) = floor_of_hazard([(n, str(n), 0.0, 40.0) for n in range(100)], 0.025).values()
    assert spread.mean == 0.0 and spread.radius > 1 / (40 * 100)


def test_an_answer_is_of_the_band_that_ends_with_its_length_or_above() -> None:
    assert [band_of(n) for n in (1, 16, 17, 64, 65, 1024, 1025)] == [
        NAMES[0], NAMES[0], NAMES[1], NAMES[1], NAMES[2], NAMES[3], NAMES[4],
    ]  # fmt: skip
    assert len(NAMES) == len(BANDS) + 1


def test_text_and_page_tell_each_figure_beside_its_floor_and_what_has_no_interval_says_why() -> None:
    text, page = " ".join(render_text(drawn()).split()), render_html(drawn())
    assert "how answers part from the control's, beside how its own do:" in text
    for said in (
        "divergence hazard, a token",
        "exact match, 65-256 tokens",
        "ended length for stop",
    ):
        assert f"quick {said}" in text and said in page
    assert "none: it is a count" in text and page.count(">it is a count</li>") == 1
    early = trial_of([pair_record(n, {"quick": 1.0}, phase="calibration", rng=Random(n)) for n in range(9)])
    assert "how answers part" not in render_text(early.ranking())
