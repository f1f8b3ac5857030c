"""Unfair comparisons are told from fair ones, and their verdicts withheld with the reason."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from analysis.calibration import Calibration
from analysis.checks import warm
from analysis.measure import PairRecord
from tests.analysis.fleet import MS
from tests.analysis.trials import CALIBRATION, altered, check, labels, named, ranked, records, trial_of

UNFAIR: list[tuple[str, Callable[[PairRecord], PairRecord], set[str]]] = [
    (
        "dispatch_lag",
        lambda r: altered(r, "slow", sent_ns=r.at_ns + 80 * MS),
        {"ttft", "visible", "itl", "tpot", "e2e"},
    ),
    ("dispatch_order", lambda r: altered(r, "control", order=-1), {"ttft", "visible", "itl", "tpot", "e2e"}),
    (
        "load_balance",
        lambda r: altered(r, "quick", prompt_tokens=90),
        {"ttft", "visible", "itl", "tpot", "e2e"},
    ),
    (
        "cache_parity",
        lambda r: altered(r, "quick", cached_tokens=90 if int(r.id[1:]) > 400 else 10),
        {"ttft", "visible", "e2e"},
    ),
    (
        "errors",
        lambda r: altered(r, "control", fault="timeout") if int(r.id[1:]) % 5 == 0 else r,
        {"ttft", "visible", "itl", "tpot", "e2e"},
    ),
]


@pytest.mark.parametrize(("name", "change", "withheld"), UNFAIR, ids=[name for name, _, _ in UNFAIR])
def test_an_unfair_comparison_withholds_its_verdicts_with_the_reason(
    name: str, change: Callable[[PairRecord], PairRecord], withheld: set[str]
) -> None:
    ranking = ranked(records(600, change))
    assert check(ranking, name) is False
    verdicts = named(ranking, "quick")["verdicts"]
    assert {latency for latency, v in verdicts.items() if v["withheld"] is not None} == withheld
    assert all(verdicts[latency]["label"] == "UNDECIDED" for latency in withheld)


def test_a_lasting_difference_in_caching_is_the_candidates_own_and_judged() -> None:
    """Prefix caching turned off is a configuration to be compared, not an unfair comparison."""
    ranking = ranked(records(600, lambda r: altered(r, "quick", cached_tokens=0)))
    assert check(ranking, "cache_parity") is True
    assert named(ranking, "quick")["verdicts"]["ttft"]["withheld"] is None


def test_a_candidate_that_never_answers_gets_no_number_and_the_last_rank() -> None:
    def refuse(record: PairRecord) -> PairRecord:
        return altered(record, "quick", fault="refused", ttft_ms=None, tpot_ms=None, itl_ms=None, e2e_ms=None)

    ranking = ranked(records(600, refuse))
    dead = named(ranking, "quick")
    assert check(ranking, "errors") is False
    assert {v["ratio"] for v in dead["verdicts"].values()} == {None}
    assert all(v["label"] == "UNDECIDED" and v["withheld"] for v in dead["verdicts"].values())
    assert dead["rank"] == max(c["rank"] for c in ranking["candidates"])


def test_arms_that_get_fewer_requests_are_named() -> None:
    def starve(record: PairRecord) -> PairRecord:
        kept = tuple(a for a in record.answers if a.arm != "quick" or int(record.id[1:]) % 10)
        return replace(record, answers=kept)

    ranking = ranked(records(400, starve))
    assert check(ranking, "load_balance") is False
    assert named(ranking, "quick")["verdicts"]["tpot"]["withheld"].startswith("quick: -1")
    assert named(ranking, "slow")["verdicts"]["tpot"]["withheld"] is None


def test_a_calibration_is_as_long_as_was_asked_or_fifty_pairs() -> None:
    """`docs/verdicts.md` says so."""

    def ok(pairs: int, asked: int) -> bool | None:
        return warm(Calibration(1, 1, 1.0, pairs, {}, {}), asked).ok

    assert [ok(9, 10), ok(10, 10), ok(49, 50), ok(49, 100), ok(50, 100)] == [False, True, False, False, True]


def test_a_control_that_differs_from_itself_withholds_everything() -> None:
    def bias(record: PairRecord) -> PairRecord:
        answers = tuple(
            replace(a, tpot_ms=(a.tpot_ms or 0) * (1.2 if a.twin else 1.0)) for a in record.answers
        )
        return replace(record, answers=answers)

    taken = records(400)
    ranking = ranked([bias(record) for record in taken[:CALIBRATION]] + taken[CALIBRATION:])
    assert check(ranking, "calibrated") is False
    assert all(c["verdicts"]["tpot"]["withheld"] for c in ranking["candidates"])


def test_books_that_do_not_close_withhold_everything() -> None:
    trial = trial_of(records(400))
    trial.books(admitted=1000, paired=900, dropped={"overload": 90})
    assert check(trial.ranking(), "books") is True
    assert trial.ranking()["books"] == {"admitted": 1000, "paired": 900, "dropped": {"overload": 90}}
    trial.books(admitted=1000, paired=990, dropped={"overload": 90})
    assert check(trial.ranking(), "books") is False
    assert set(labels(trial.ranking()).values()) == {"UNDECIDED"}


def test_requests_that_every_arm_fails_say_nothing_and_withhold_nothing() -> None:
    def refuse(record: PairRecord) -> PairRecord:
        if int(record.id[1:]) % 3:
            return record
        return replace(record, answers=tuple(replace(a, fault="status 400") for a in record.answers))

    ranking = ranked(records(600, refuse))
    assert check(ranking, "errors") is True
    assert ranking["control"]["errors"] == 200
    assert labels(ranking)["quick"] == "FASTER"
