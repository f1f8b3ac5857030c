"""What is said of several candidates at once: discoveries by e-BH, and who is beaten by another."""

from math import log
from random import Random
from typing import Any

from msgspec.structs import replace

from analysis.measure import LATENCIES
from analysis.several import beaten, discoveries
from analysis.spec import ExperimentSpec
from analysis.stats.windows import Windows
from tests.analysis.trials import altered, labels, named, ranked, records


def candidate(name: str, evidence: float | None, withheld: str | None = None) -> dict[str, Any]:
    said = {"evidence": evidence, "withheld": withheld}
    return {"name": name, "verdicts": dict.fromkeys(LATENCIES, said)}


def test_who_differs_is_named_and_who_is_the_same_is_not() -> None:
    ranking = ranked(records(600))
    assert set(ranking["discoveries"]["tpot"]) == {"quick", "slow"}
    assert named(ranking, "quick")["verdicts"]["tpot"]["evidence"] > 2
    assert named(ranking, "same")["verdicts"]["tpot"]["evidence"] < 1


def test_many_clear_ones_let_a_less_clear_one_in_that_alone_would_not_be_named() -> None:
    clear = [candidate(f"c{k}", 9.0) for k in range(9)]
    fair = candidate("fair", 1.5)  # E = 32: more than 10 / (10 * 0.05), less than 10 / 0.05
    assert "fair" in discoveries([*clear, fair], 0.05)["tpot"]
    weak = [candidate(f"c{k}", 0.0) for k in range(9)]
    assert discoveries([*weak, fair], 0.05)["tpot"] == []


def test_withheld_and_unfinished_ones_are_never_named() -> None:
    said = [candidate("withheld", 99.0, "unfair"), candidate("early", None), candidate("clear", 300.0)]
    assert discoveries(said, 0.05)["e2e"] == ["clear"]


def test_evidence_is_beyond_one_in_alpha_exactly_where_the_interval_leaves_out_no_difference() -> None:
    for live in (160, 200, 260, 400, 900):
        ranking = ranked(records(live, seed=live))
        for one in ranking["candidates"]:
            for verdict in one["verdicts"].values():
                if verdict["evidence"] is not None:
                    apart = verdict["upper"] < 1.0 or verdict["lower"] > 1.0
                    assert apart == (10 ** verdict["evidence"] >= 3 / 0.05)


def test_who_is_beaten_by_another_is_told_with_by_whom_and_since_when() -> None:
    out = {one["name"]: one for one in ranked(records(600))["beaten"]}
    assert set(out) == {"same", "slow"}
    assert all(one["units"] >= 15 and one["by"] != one["name"] for one in out.values())


def test_a_candidate_whose_verdict_is_withheld_beats_nobody() -> None:
    ranking = ranked(records(600, lambda r: altered(r, "quick", prompt_tokens=90)))
    assert labels(ranking)["quick"] == "UNDECIDED"
    assert {one["by"] for one in ranking["beaten"]} == {"same"}


def test_one_candidate_has_nobody_to_be_beaten_by() -> None:
    taken = records(400)
    alone = [replace(r, answers=tuple(a for a in r.answers if a.arm in ("control", "quick"))) for r in taken]
    ranking = ranked(alone, ExperimentSpec("trial", "fleet", ("quick",)))
    assert ranking["beaten"] == []
    assert ranking["discoveries"]["tpot"] == ["quick"]


def beaten_of(empty: int) -> list[dict[str, Any]]:
    """Who is beaten of three, of which one has no window after its sixth; so many are before without any."""
    windows, rng = Windows(10, 10), Random(1)
    for number in range(90 + empty):
        live = number - empty
        effects = {"a": 0.0, "b": log(1.1)} | ({"gone": 0.0} if live < 6 else {})
        for at in range(5):
            values = {f"tpot {name}": rng.gauss(effect, 0.1) for name, effect in effects.items()}
            windows.add(10 * number + at, values if live >= 0 else {"other": 1.0})
    windows.finish()
    said = {latency: {"units": 90, "withheld": None} for latency in LATENCIES}
    running = [{"name": name, "verdicts": said} for name in ("a", "b", "gone")]
    return beaten(windows, running, 0.05, log(1.03))


def test_who_left_takes_no_window_from_those_that_stay() -> None:
    assert [(one["name"], one["by"]) for one in beaten_of(empty=0)] == [("b", "a")]


def test_windows_of_which_no_candidate_has_any_are_no_units() -> None:
    assert [one["units"] for one in beaten_of(empty=10)] == [15]
