"""Shares of failed, late and slow answers: what each counts, and what follows from it."""

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from analysis.measure import PairRecord
from analysis.spec import ExperimentSpec
from tests.analysis.fleet import MS
from tests.analysis.trials import PACES, altered, named, ranked, records

SLO = ExperimentSpec("trial", "fleet", tuple(PACES), slo_ttft_ms=225.0)


def rate(ranking: dict[str, Any], candidate: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = named(ranking, candidate)["rates"][name]
    return found


def failing(share: float, arm: str = "quick", seed: int = 5, **values: Any) -> list[PairRecord]:
    rng = Random(seed)
    return records(900, lambda r: altered(r, arm, fault="truncated", **values) if rng.random() < share else r)


def test_who_fails_more_often_is_told_flagged_and_ranked_behind_all_that_do_not() -> None:
    ranking = ranked(failing(0.2))
    errors = rate(ranking, "quick", "errors")
    assert errors["label"] == "MORE" and errors["lower"] > 0.1
    assert 0.15 < errors["candidate"] < 0.25 and errors["control"] == 0.0
    assert named(ranking, "quick")["flags"] == ["fails more often"]
    assert named(ranking, "quick")["rank"] == 3
    assert "fails more often" in ranking["summary"] or named(ranking, "quick")["verdicts"]["tpot"]["withheld"]


def test_both_shares_and_their_difference_are_of_the_same_windows() -> None:
    """Pooled over pairs they can contradict it: here most are of a few windows, where the control fails."""

    def bursts(record: PairRecord) -> PairRecord:
        number = int(record.id[1:])
        burst = number % 300 > 100  # at ten times the pace
        at_ns = record.at_ns - (number % 300 - 100) * 90 * MS if burst else record.at_ns
        return altered(replace(record, at_ns=at_ns), "control" if burst else "same", fault="truncated")

    said = rate(ranked(records(1800, bursts)), "same", "errors")
    assert said["candidate"] - said["control"] == pytest.approx(said["excess"])
    assert said["excess"] > 0.0


def test_a_control_that_fails_more_makes_the_candidate_fail_less() -> None:
    errors = rate(ranked(failing(0.08, "control")), "same", "errors")
    assert errors["label"] == "FEWER" and errors["upper"] < 0.0
    assert named(ranked(failing(0.08, "control")), "same")["flags"] == []


def test_without_a_failure_no_more_than_a_hundredth_is_said_and_only_after_enough_pairs() -> None:
    few, many = ranked(records(200)), ranked(records(1500))
    assert rate(few, "same", "errors")["label"] == "UNDECIDED"
    said = rate(many, "same", "errors")
    assert said["label"] == "NO_MORE" and said["excess"] == 0.0 and 0.0 < said["upper"] <= 0.01


def test_slow_is_what_one_in_twenty_of_the_controls_answers_took_longer_than() -> None:
    ranking = ranked(records(1200))
    same, slow = (rate(ranking, name, "slow_ttft") for name in ("same", "slow"))
    assert 200.0 < same["beyond_ms"] < 230.0  # the control's 200 ms and 5 % of noise
    assert 0.02 < same["control"] < 0.09
    assert slow["candidate"] > 0.9 and slow["label"] == "MORE"
    assert rate(ranking, "quick", "slow_ttft")["label"] == "FEWER"


def test_objectives_are_judged_where_there_are_any() -> None:
    assert "slo" not in named(ranked(records(300)), "slow")["rates"]
    ranking = ranked(records(600), SLO)
    assert rate(ranking, "slow", "slo")["label"] == "MORE"
    assert rate(ranking, "slow", "slo")["candidate"] > 0.9


@pytest.mark.parametrize("name", ["errors", "slow_ttft", "slow_e2e"])
def test_a_failed_answer_is_a_slow_one_too(name: str) -> None:
    taken = failing(0.3, "same", ttft_ms=None, itl_ms=None, tpot_ms=None, e2e_ms=None)
    assert rate(ranked(taken), "same", name)["label"] == "MORE"


def test_what_the_shadow_cancelled_says_nothing() -> None:
    taken = records(300, lambda r: altered(r, "quick", fault="cancelled"))
    assert named(ranked(taken), "quick")["rates"] == {}
