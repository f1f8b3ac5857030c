"""Trials of a quick, a like and a slow candidate, and what their rankings say."""

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec.structs import replace

from analysis.measure import PairRecord
from analysis.ranking import Trial
from analysis.spec import ExperimentSpec
from tests.analysis.fleet import pair_record

PACES = {"quick": 0.75, "same": 1.0, "slow": 1.3}
SPEC = ExperimentSpec("trial", "fleet", tuple(PACES), calibration_s=20.0, calibration_pairs=100)
CALIBRATION = 201  # pairs at 10 a second: 20 s


def records(
    live: int, change: Callable[[PairRecord], PairRecord] = lambda record: record, seed: int = 1
) -> list[PairRecord]:
    rng = Random(seed)
    before = [pair_record(n, PACES, phase="calibration", rng=rng) for n in range(CALIBRATION)]
    after = [change(pair_record(CALIBRATION + n, PACES, rng=rng)) for n in range(live)]
    return before + after


def trial_of(taken: list[PairRecord], spec: ExperimentSpec = SPEC) -> Trial:
    trial = Trial(spec)
    for record in taken:
        trial.add(record)
    return trial


def ranked(taken: list[PairRecord], spec: ExperimentSpec = SPEC) -> dict[str, Any]:
    return trial_of(taken, spec).ranking()


def named(ranking: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in ranking["candidates"] if c["name"] == name)
    return found


def check(ranking: dict[str, Any], name: str) -> bool | None:
    found: bool | None = next(c["ok"] for c in ranking["checks"] if c["name"] == name)
    return found


def labels(ranking: dict[str, Any], latency: str = "tpot") -> dict[str, str]:
    return {c["name"]: c["verdicts"][latency]["label"] for c in ranking["candidates"]}


def altered(record: PairRecord, arm: str, **values: Any) -> PairRecord:
    answers = tuple(replace(answer, **values) if answer.arm == arm else answer for answer in record.answers)
    return replace(record, answers=answers)
