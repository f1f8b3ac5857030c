"""What is said of several candidates at once: discoveries by e-BH, and who is beaten by another."""

from typing import Any

from msgspec.structs import replace

from analysis.measure import LATENCIES
from analysis.several import discoveries
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
    from analysis.spec import ExperimentSpec

    ranking = ranked(alone, ExperimentSpec("trial", "fleet", ("quick",)))
    assert ranking["beaten"] == []
    assert ranking["discoveries"]["tpot"] == ["quick"]
