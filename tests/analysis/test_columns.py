"""Pairs counted together say what they say one by one, whatever is missing, late, failed or cancelled."""

from functools import cache
from math import isnan
from random import Random

import numpy as np
import pytest
from msgspec.structs import replace

from analysis.columns import Columns, added, logs
from analysis.measure import LATENCIES, AnswerMeasure, PairRecord
from analysis.ranking import Trial
from analysis.report import to_json
from analysis.series import series
from analysis.stats.contrast import contrast
from analysis.stats.windows import Windows
from tests.analysis.trials import CALIBRATION, PACES, SPEC, records

FAULTS = ("timeout", "http_500", "cancelled")
MISSABLE = (*(f"{latency}_ms" for latency in LATENCIES), "cached_tokens", "arrival_tokens")
ZERO = {"itl_ms": 0.0}


def missed(answer: AnswerMeasure, latency: str) -> str | None:
    """Why an answer has not even a latency: it failed, or it is of reasoning alone."""
    is_hidden = latency == "visible" and answer.ttft_ms is not None and answer.visible_ms is None
    return answer.fault or ("hidden" if is_hidden else None)


def troubled(answer: AnswerMeasure, rng: Random) -> AnswerMeasure:
    change: dict[str, object] = {}
    if rng.random() < 0.08:
        change["fault"] = rng.choice(FAULTS)
    if rng.random() < 0.2:
        change |= dict.fromkeys(rng.sample(MISSABLE, 2))
    if rng.random() < 0.05:
        change |= ZERO
    if rng.random() < 0.1:
        change["more_reasons"] = rng.choice([("length",), ("stop", None)])
    return replace(answer, **change)


def troubles(record: PairRecord, rng: Random) -> PairRecord:
    kept = tuple(troubled(answer, rng) for answer in record.answers if rng.random() > 0.03)
    scored = {
        arm: {metric: rng.choice([0.0, 1 / 3, 1.0]) for metric in found if rng.random() > 0.1}
        for arm, found in record.outputs.items()
        if rng.random() > 0.05
    }
    shown = rng.choice([None, *record.answers])
    return replace(record, answers=kept, outputs=scored, production=shown)


@cache
def taken() -> tuple[PairRecord, ...]:
    """Calibration and 1,200 live pairs with troubles; one in twenty comes late, by up to fifty windows."""
    rng = Random(11)
    found = [troubles(record, rng) for record in records(1200)]
    places = {id(record): n + rng.random() for n, record in enumerate(found)}
    for record in found[CALIBRATION + 50 :]:
        if rng.random() < 0.05:
            places[id(record)] += rng.randrange(10, 1000)
    return tuple(sorted(found, key=lambda record: places[id(record)]))


@pytest.mark.parametrize("looked_every", [3, 50])
def test_a_ranking_does_not_depend_on_how_many_pairs_are_counted_together(looked_every: int) -> None:
    trial, once = Trial(SPEC), Trial(SPEC)
    for number, record in enumerate(taken()):
        trial.add(record)
        once.add(record)
        if number % looked_every == 0:
            assert (
                trial.windows is None or trial.phase == "live"
            )  # who asks for windows has all pairs counted
    assert trial.phase == "live"
    assert to_json(trial.ranking()) == to_json(once.ranking())


def test_every_contrast_and_score_is_the_one_of_its_pair() -> None:
    columns = Columns.of(taken())
    found = series(columns, tuple(PACES))
    told = 0
    for row, record in enumerate(taken()):
        ours = record.answer("control")
        for name in PACES:
            theirs = record.answer(name)
            for latency in LATENCIES:
                said = None
                if ours is not None and theirs is not None:
                    values = ours.latency_ms(latency), theirs.latency_ms(latency)
                    said = contrast(*values, missed(ours, latency), missed(theirs, latency))
                value = float(found[f"{latency} {name}"][row])
                assert (isnan(value) and said is None) or value == said
                told += said is not None
            for metric in ("exact_match", "edit_similarity"):
                score = record.outputs.get(name, {}).get(metric)
                value = float(found[f"{metric} {name}"][row])
                assert isnan(value) if ours is None or theirs is None or score is None else value == score
    assert told > 10_000


@pytest.mark.parametrize("at_once", [1, 5, 64, 10_000])
def test_windows_of_many_pairs_are_those_of_one_pair_after_another(at_once: int) -> None:
    rng = np.random.default_rng(3)
    at_ns = (np.arange(3000) * 10**8 - (rng.random(3000) < 0.1) * rng.integers(0, 10**11, 3000)) + 10**12
    values = {name: rng.normal(size=3000) for name in ("a", "b")}
    values["a"][rng.random(3000) < 0.3] = np.nan
    values["b"][rng.random(3000) < 0.1] = np.inf
    values["b"][rng.random(3000) < 0.1] = -np.inf
    single, many = Windows(10**9, 2 * 10**9), Windows(10**9, 2 * 10**9)
    closings: list[list[bytes]] = [[], []]

    def note(windows: Windows, where: list[bytes]) -> None:
        where.append(b"".join(windows.means(name).tobytes() for name in values))

    for row, at in enumerate(at_ns.tolist()):
        said = {name: float(column[row]) for name, column in values.items() if not np.isnan(column[row])}
        if single.add(at, said):
            note(single, closings[0])
    for begin in range(0, 3000, at_once):
        part = slice(begin, begin + at_once)
        columns = {name: column[part] for name, column in values.items()}
        many.add_many(at_ns[part], columns, lambda: note(many, closings[1]))
    assert len(closings[0]) > 200
    assert closings[0] == closings[1]
    assert single.units == many.units


def test_sums_and_logarithms_do_not_depend_on_what_is_beside_them() -> None:
    values = np.random.default_rng(4).lognormal(0.0, 3.0, 1001)
    parts = [values[:1], values[1:8], values[8:500], values[500:]]
    assert np.array_equal(logs(values), np.concatenate([logs(part) for part in parts]))
    total = 0.1
    for part in parts:
        total = added(total, part)
    assert total == added(0.1, values)
    assert np.array_equal(np.isnan(logs(np.array([0.0, -1.0, np.nan, 1.0]))), [True, True, True, False])


def test_of_two_answers_of_one_arm_the_first_counts() -> None:
    record = taken()[CALIBRATION + 1]
    first = replace(record.answers[0], ttft_ms=1.0, fault=None)
    both = replace(record, answers=(first, replace(first, ttft_ms=2.0), *record.answers[1:]))
    assert Columns.of([both]).side(first.arm, first.twin).latency_ms("ttft").tolist() == [1.0]
