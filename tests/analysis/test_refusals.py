"""Every check can fail: it says so, its verdicts are withheld, and the reader is told what would mend it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from analysis.measure import PairRecord
from analysis.mending import MEND
from analysis.ranking import Trial
from tests.analysis.fleet import MS
from tests.analysis.trials import CALIBRATION, SPEC, altered, check, named, ranked, records, trial_of

Change = Callable[[PairRecord], PairRecord]
EVERY = {"ttft", "visible", "itl", "tpot", "e2e"}


def over(change: Change, live: int = 600) -> Callable[[], Trial]:
    """A trial of which each live pair is changed."""
    return lambda: trial_of(records(live, change))


def then(tell: Callable[[Trial], None]) -> Callable[[], Trial]:
    """A fair trial that is told something more."""

    def trial() -> Trial:
        made = trial_of(records(600))
        tell(made)
        return made

    return trial


def differing(latency: str) -> Callable[[], Trial]:
    """A trial whose control answers more slowly the second time, while it calibrates."""

    def slowed(record: PairRecord) -> PairRecord:
        answers = []
        for answer in record.answers:
            value = getattr(answer, latency) * (1.2 if answer.twin else 1.0)
            answers.append(replace(answer, **{latency: value}))
        return replace(record, answers=tuple(answers))

    taken = records(600)
    return lambda: trial_of([slowed(r) for r in taken[:CALIBRATION]] + taken[CALIBRATION:])


def cut_short() -> Trial:
    """A trial whose calibration somebody ended after thirty pairs."""
    taken, trial = records(600), Trial(SPEC)
    for record in taken[:30]:
        trial.add(record)
    trial.calibrate()
    for record in taken[CALIBRATION:]:
        trial.add(record)
    return trial


def hot(trial: Trial) -> None:
    for second in range(40):
        reasons = ["hw_thermal"] if second % 2 else []
        gpu = {"uuid": "GPU-1", "throttling": reasons, "sm_clock_mhz": 1200}
        trial.gpus({"arm": "quick", "at_ns": second, "source": "nvml", "gpus": [gpu]})


def loaded(trial: Trial) -> None:
    trial.load({"span_s": 30.0, "production": 10.0, "arms": {"control": 1.0}, "rate": 0.1, "matched": False})


def backwards(record: PairRecord) -> PairRecord:
    """One answer in fifty ends before it began."""
    return altered(record, "same", end_ns=record.at_ns - MS) if int(record.id[1:]) % 50 == 0 else record


def halves(number: int) -> bool:
    return number > CALIBRATION + 300


def turning(record: PairRecord) -> PairRecord:
    scale = 3.0 if halves(int(record.id[1:])) else 1.0
    answer = record.answer("quick")
    assert answer is not None
    slow = {name: getattr(answer, name) * scale for name in ("ttft_ms", "itl_ms", "tpot_ms", "e2e_ms")}
    return altered(record, "quick", **slow)


TABLE: dict[str, tuple[Callable[[], Trial], set[str]]] = {
    "calibrated": (differing("tpot_ms"), EVERY),
    "warm_up": (cut_short, EVERY),
    "dispatch_lag": (over(lambda r: altered(r, "slow", sent_ns=r.at_ns + 80 * MS)), EVERY),
    "dispatch_order": (over(lambda r: altered(r, "control", order=-1)), EVERY),
    "load_balance": (over(lambda r: altered(r, "quick", prompt_tokens=90)), EVERY),
    "cache_parity": (
        over(lambda r: altered(r, "quick", cached_tokens=90 if halves(int(r.id[1:])) else 10)),
        {"ttft", "visible", "e2e"},
    ),
    "token_bursts": (over(lambda r: altered(r, "quick", arrival_tokens=3.0)), {"itl"}),
    "token_source": (over(lambda r: altered(r, "quick", token_source="logprobs")), {"tpot"}),
    "errors": (
        over(lambda r: altered(r, "control", fault="timeout") if int(r.id[1:]) % 5 == 0 else r),
        EVERY,
    ),
    "books": (then(lambda t: t.books(1000, 990, {"overload": 90})), EVERY),
    "missing": (then(lambda t: t.books(1000, 960, {"unanswered": 40})), EVERY),
    "clock": (over(backwards), EVERY),
    "harness": (then(lambda t: t.late({"timers": 400, "late": 12, "worst_ms": 310.0})), EVERY),
    "gpu_clocks": (then(hot), EVERY),
}


def verdicts(ranking: dict[str, Any], latencies: Iterable[str]) -> list[dict[str, Any]]:
    return [named(ranking, "quick")["verdicts"][latency] for latency in latencies]


@pytest.mark.parametrize("name", TABLE)
def test_a_check_that_fails_withholds_its_verdicts_and_says_what_would_mend_it(name: str) -> None:
    make, withheld = TABLE[name]
    ranking = make().ranking()
    assert check(ranking, name) is False
    said = next(c for c in ranking["checks"] if c["name"] == name)
    assert said["mend"] == MEND[name]
    for verdict in verdicts(ranking, withheld):
        assert verdict["label"] == "UNDECIDED"
        assert f"({name}; to mend it: {MEND[name]})" in verdict["withheld"]
    assert all(verdict["withheld"] is None for verdict in verdicts(ranking, EVERY - withheld))


def test_of_a_fair_comparison_no_check_fails() -> None:
    trial = trial_of(records(600))
    trial.books(601, 600, {})
    trial.late({"timers": 400, "late": 1, "worst_ms": 60.0})
    assert {c["name"]: c["ok"] for c in trial.ranking()["checks"] if c["ok"] is False} == {}


def test_every_check_is_in_this_table_or_withholds_nothing() -> None:
    trial = trial_of(records(50))
    loaded(trial)
    said = {c["name"]: c for c in trial.ranking()["checks"]}
    assert set(said) | {"steady"} == set(MEND)
    assert set(said) - set(TABLE) == {"production_load", "enough_units"}
    assert said["production_load"]["ok"] is False and said["production_load"]["mend"]
    assert said["enough_units"]["ok"] is None and said["enough_units"]["mend"] == MEND["enough_units"]
    assert all(v["label"] == "UNDECIDED" for v in verdicts(trial.ranking(), EVERY))


def test_an_effect_that_turns_is_withheld_with_what_to_do() -> None:
    said = verdicts(ranked(records(1500, turning)), ["tpot"])[0]
    assert said["label"] == "UNDECIDED" and MEND["steady"] in said["withheld"]


def test_what_differs_in_the_control_beside_its_pace_is_withheld_alone() -> None:
    ranking = differing("ttft_ms")().ranking()
    assert check(ranking, "calibrated") is False
    assert verdicts(ranking, ["ttft"])[0]["withheld"]
    assert all(v["withheld"] is None for v in verdicts(ranking, ["itl", "tpot", "e2e"]))


def test_a_cap_on_power_is_told_and_withholds_nothing() -> None:
    trial = trial_of(records(300))
    for second in range(40):
        gpu = {"uuid": "GPU-1", "throttling": ["power_cap"]}
        trial.gpus({"arm": "quick", "at_ns": second, "source": "nvml", "gpus": [gpu]})
    said = next(c for c in trial.ranking()["checks"] if c["name"] == "gpu_clocks")
    assert said["ok"] is True and "power_cap" in said["detail"]


@pytest.mark.parametrize("body", [{}, {"timers": 1, "late": 2, "worst_ms": 0}, {"timers": 1, "late": None}])
def test_a_word_on_lateness_that_is_none_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        trial_of(records(0)).late(body)


def test_every_check_is_described_where_verdicts_are_explained() -> None:
    text = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text()
    assert [name for name in MEND if f"`{name}`" not in text] == ["enough_units", "steady"]
