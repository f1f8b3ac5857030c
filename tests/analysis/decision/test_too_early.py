"""Nobody is turned down before there is enough to judge by: it is too early, with what is lacking."""

from typing import Any

import pytest

from analysis.decision.decide import Wishes, decide
from analysis.decision.evidence import Evidence
from analysis.decision.text import render_text
from analysis.measure import PairRecord
from analysis.ranking import Trial
from tests.analysis.trials import CALIBRATION, SPEC, altered, records

FULL = 1200
WHOLE: dict[str, Any] = {"ttft_ms": None, "itl_ms": None, "tpot_ms": None, "streamed": False}


def decided(pairs: int, taken: list[PairRecord], *, lost: int = 0) -> dict[str, Any]:
    evidence = Evidence(SPEC, set())
    trial = Trial(SPEC, watch=evidence.add)
    for record in taken[:pairs]:
        trial.add(record)
    trial.books(pairs + lost, pairs, {})  # copies that are unaccounted for: a check that fails
    return decide(trial, evidence, Wishes())


def comparisons(found: dict[str, Any]) -> list[dict[str, Any]]:
    gates = [gate for own in found["gates"].values() for gate in own if gate["name"] == "comparison"]
    assert len(gates) == len(SPEC.candidates)
    return gates


PAIRS = records(FULL)


@pytest.mark.parametrize(
    ("pairs", "lacking"),
    [
        (0, "the calibration is 0% done (0 of 100 pairs, 0 of 20 s); if no more pairs come, send"),
        (84, "(84 of 100 pairs, 8 of 20 s)"),
        (CALIBRATION, "15 more windows needed at least"),
        (CALIBRATION + 60, "more windows needed at least"),
    ],
)
def test_before_there_are_fifteen_windows_a_check_that_fails_leaves_all_open_and_it_is_said_what_is_lacking(
    pairs: int, lacking: str
) -> None:
    for lost in (0, 1000):
        found = decided(pairs, PAIRS, lost=lost)
        assert found["answer"] == "UNDECIDED" and found["passes"] == list(SPEC.candidates)
        assert found["headline"].startswith("Undecided, too early: ") and lacking in found["headline"]
        assert {gate["state"] for gate in comparisons(found)} == {"open"}
        assert all(lacking in gate["detail"] for gate in comparisons(found))
        assert all(("admitted" in gate["detail"]) == bool(lost) for gate in comparisons(found))


def test_with_enough_windows_the_same_check_fails_the_gate() -> None:
    found = decided(CALIBRATION + FULL, PAIRS, lost=1000)
    assert {gate["state"] for gate in comparisons(found)} == {"failed"}
    assert found["answer"] == "NONE PASSES" and found["early"] is None


def test_what_streams_is_scored_by_its_first_token_and_its_others_from_the_first_pair_on() -> None:
    for pairs in (0, 84, CALIBRATION + 60, CALIBRATION + FULL):
        assert decided(pairs, PAIRS)["weights"] == {"ttft": 1.0, "tpot": 1.0}
    assert "score: TTFT 1, TPOT 1" in render_text(decided(84, PAIRS))


def test_what_comes_in_one_piece_is_scored_end_to_end_from_the_first_pair_on() -> None:
    def whole(record: PairRecord) -> PairRecord:
        for arm in ("control", *SPEC.candidates):
            record = altered(record, arm, **WHOLE)
        return record

    taken = [whole(record) for record in PAIRS]
    for pairs in (84, CALIBRATION + 60, CALIBRATION + FULL):
        assert decided(pairs, taken)["weights"] == {"e2e": 1.0}
