"""What is kept of single latencies for conditions on tails: an answer that missed it is as slow as can be."""

from math import inf
from random import Random

import numpy as np
import pytest
from msgspec.structs import replace

from analysis.columns import Columns
from analysis.decision.evidence import Evidence
from analysis.horizons import Horizons
from analysis.measure import AnswerMeasure, PairRecord
from analysis.spec import ExperimentSpec
from tests.analysis.fleet import pair_record

SPEC = ExperimentSpec("exp", "f", ("c1",))
BOTH = ("control", "c1")


def came_to_text(
    record: PairRecord, *, hidden: tuple[str, ...] = (), failed: tuple[str, ...] = ()
) -> PairRecord:
    def one(answer: AnswerMeasure) -> AnswerMeasure:
        if answer.arm in failed:
            return replace(answer, fault="status 500", ttft_ms=None, visible_ms=None)
        return replace(answer, visible_ms=None if answer.arm in hidden else 500.0)

    return replace(record, answers=tuple(map(one, record.answers)))


def kept(record: PairRecord) -> list[tuple[float, float]]:
    evidence = Evidence(SPEC, {"visible"})
    evidence.add(record, 0)
    found = evidence.paired("c1", "visible")
    return list(zip(found.control.tolist(), found.candidate.tolist(), strict=True))


PAIR = pair_record(0, {"c1": 1.0}, rng=Random(1))


def test_an_answer_that_never_comes_to_text_is_infinitely_slow_to_it_as_a_failed_one_is() -> None:
    for missed in ({"hidden": ("c1",)}, {"failed": ("c1",)}):
        assert kept(came_to_text(PAIR, **missed)) == [(500.0, inf)]
    assert kept(came_to_text(PAIR, hidden=("control",))) == [(inf, 500.0)]


def test_of_a_pair_that_both_miss_nothing_is_kept() -> None:
    assert kept(came_to_text(PAIR, hidden=BOTH)) == kept(came_to_text(PAIR, failed=BOTH)) == []
    assert kept(came_to_text(PAIR, hidden=("c1",), failed=("control",))) == []


@pytest.mark.parametrize("missed", [(), ("c1",), ("control",), BOTH])
def test_a_condition_and_the_reports_percentiles_are_of_the_same_pairs(missed: tuple[str, ...]) -> None:
    record, horizons = came_to_text(PAIR, hidden=missed), Horizons("c1")
    horizons.add(Columns.of([record]), np.array([0]))
    assert horizons.show(0.05)["visible"]["pairs"] == len(kept(record))
