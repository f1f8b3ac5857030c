"""A race in a trial: who leaves, why, what is said of it, and that a log's replay says the same."""

from collections.abc import Sequence
from dataclasses import replace as changed
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from analysis.course import Course
from analysis.decision.decide import Wishes, decide
from analysis.decision.evidence import Evidence
from analysis.decision.gates import Bars
from analysis.decision.measures import Measure
from analysis.measure import PairRecord
from analysis.race import Left, Race
from analysis.ranking import Trial
from analysis.replay import replay
from analysis.report import render_text, to_json
from analysis.spec import ExperimentSpec, RaceSpec
from analysis.store import NAME, LogReader
from tests.analysis.fleet import pair_record
from tests.analysis.trials import SPEC, altered, check, named, records

BEATEN = changed(SPEC, race=RaceSpec())
WEIGHED = changed(SPEC, race=RaceSpec(weights={"ttft": 1.0, "tpot": 2.0}))
RUNGS = changed(SPEC, race=RaceSpec(beaten=False, first_rung=15))


def without(record: PairRecord, names: Sequence[str]) -> PairRecord:
    answers = tuple(answer for answer in record.answers if answer.arm not in names)
    return replace(record, answers=answers)


def raced(spec: ExperimentSpec, taken: list[PairRecord], lag: int = 0) -> tuple[Trial, list[Left]]:
    """A trial whose candidates get no more copies once they left, `lag` pairs later."""
    trial, left, sent = Trial(spec), [], []
    for record in taken:
        sent.append(trial.race.out)
        trial.add(without(record, sent[-1 - lag] if len(sent) > lag else ()))
        for one in trial.leaving():
            trial.leave(one)
            left.append(one)
    return trial, left


def test_the_slow_leave_beaten_and_the_quick_stays() -> None:
    trial, left = raced(BEATEN, records(900), lag=5)
    assert {one.name for one in left} == {"slow", "same"}
    assert all(one.by is not None and one.rung == 0 and one.units >= 15 for one in left)
    ranking = trial.ranking()
    assert ranking["race"]["running"] == ["quick"]
    assert named(ranking, "quick")["left"] is None
    assert "surely better" in named(ranking, "slow")["left"]
    assert (
        named(ranking, "slow")["verdicts"]["tpot"]["units"]
        < named(ranking, "quick")["verdicts"]["tpot"]["units"]
    )


def test_at_a_rung_the_worse_half_leaves_and_that_is_said_to_be_no_proof() -> None:
    trial, left = raced(RUNGS, records(1200))
    assert [(one.name, one.rung) for one in left] == [("slow", 1), ("same", 2)]
    assert [one.units for one in left] == [15, 45]
    assert all("worse half" in one.why and "not shown to be worse" in one.why for one in left)
    assert trial.ranking()["race"]["next_rung_units"] is None


def test_without_a_race_all_stay() -> None:
    trial, left = raced(SPEC, records(900))
    assert left == [] and trial.ranking()["race"] is None
    assert all(c["left"] is None for c in trial.ranking()["candidates"])


def test_that_a_candidate_gets_no_copies_any_more_is_no_unfairness_to_it() -> None:
    trial, left = raced(RUNGS, records(1200))
    assert left
    ranking = trial.ranking()
    assert check(ranking, "load_balance") is True
    assert all(v["withheld"] is None for v in named(ranking, "slow")["verdicts"].values())


def test_the_labels_of_those_that_left_stay_as_they_were() -> None:
    taken = records(900)
    trial, left = raced(BEATEN, taken)
    assert {one.name for one in left} >= {"slow"}
    assert named(trial.ranking(), "slow")["verdicts"]["tpot"]["label"] == "SLOWER"


def otherwise(record: PairRecord) -> PairRecord:
    """The quick one says something else from the first letter on."""
    return replace(record, outputs={**record.outputs, "quick": {"exact_match": 0.0, "first_divergence": 1.0}})


def test_one_of_which_something_amiss_is_said_beats_nobody_that_is_well_unless_it_is_accepted() -> None:
    taken = records(900, otherwise)
    trial, left = raced(BEATEN, taken)
    assert named(trial.ranking(), "quick")["flags"] == ["outputs diverge"]
    assert [(one.name, one.by) for one in left] == [("slow", "same")]
    _, left = raced(changed(SPEC, race=RaceSpec(accept_outputs=True)), taken)
    assert {(one.name, one.by) for one in left} >= {("same", "quick")}


def test_at_a_rung_it_leaves_before_slower_ones_that_are_well() -> None:
    _, left = raced(RUNGS, records(1200, otherwise))
    assert [one.name for one in left] == ["quick", "slow"]
    assert "outputs diverge" in left[0].why


def test_a_rung_waits_for_a_candidate_whose_verdict_is_withheld() -> None:
    trial, left = raced(RUNGS, records(600, lambda r: altered(r, "quick", prompt_tokens=90)))
    assert left == []
    assert trial.ranking()["race"]["waits_for"] == "quick"


def test_the_last_candidate_and_a_stranger_cannot_leave() -> None:
    race = Race(BEATEN)

    def at_a_rung(name: str) -> Left:
        return Left(name=name, rung=1, by=None, units=15, window=3, why="so")

    for name in ("slow", "same"):
        race.leave(at_a_rung(name))
    for name in ("quick", "stranger"):
        with pytest.raises(ValueError, match="cannot leave"):
            race.leave(at_a_rung(name))


def test_a_log_replayed_gives_the_same_ranking_and_goes_on_with_who_is_out(tmp_path: Path) -> None:
    course = Course(WEIGHED, tmp_path, measured=lambda frame: frame["record"])
    course.load()
    for record in records(900):
        course.pair({"record": without(record, course.out)})
        course.race()
    live, out = to_json(course.ranking()), course.out
    course.close()
    assert set(out) == {"slow", "same"}
    past = LogReader(tmp_path / WEIGHED.name / NAME)
    assert past.header.spec == WEIGHED
    trial = Trial(WEIGHED, past.header.epoch)
    replay(past, trial)
    past.close()
    assert to_json(trial.ranking()) == live
    again = Course(WEIGHED, tmp_path)
    again.load()
    assert again.reached["out"] == out and to_json(again.ranking()) == live
    again.close()


def test_reports_say_who_left_when_and_why() -> None:
    trial, _ = raced(RUNGS, records(1200))
    text = render_text(trial.ranking())
    assert "slow left the race at rung 1: in the worse half by TTFT and TPOT alike (+" in text
    assert "race: 1 of 3 candidates are in" in text


def test_who_left_does_not_win_and_had_its_part_in_the_choice_until_then() -> None:
    trial, _ = raced(RUNGS, records(1200))
    found = decide(trial, Evidence(trial.spec), Wishes(bars=Bars(outputs=False)))
    gates = {name: {gate["name"]: gate["state"] for gate in own} for name, own in found["gates"].items()}
    assert gates["slow"]["race"] == gates["same"]["race"] == "failed" and "race" not in gates["quick"]
    assert found["passes"] == ["quick"] and found["winner"]["name"] == "quick"


def of_paces(
    paces: dict[str, float], ttft: dict[str, float], spec: ExperimentSpec = RUNGS
) -> tuple[ExperimentSpec, list[PairRecord]]:
    """Candidates of such paces, and of a TTFT that is so many times what the pace makes of it."""
    rng, taken = Random(1), []
    for n in range(201 + 1500):
        record = pair_record(n, paces, phase="calibration" if n < 201 else "live", rng=rng)
        answers = tuple(
            replace(
                answer, ttft_ms=(answer.ttft_ms or 0.0) * (ttft.get(answer.arm, 1.0) if n >= 201 else 1.0)
            )
            for answer in record.answers
        )
        taken.append(replace(record, answers=answers))
    return changed(spec, candidates=tuple(paces)), taken


def test_that_there_is_no_difference_worth_having_is_not_said_past_one_that_left_and_may_be_better() -> None:
    by_tpot = changed(SPEC, race=RaceSpec(beaten=False, first_rung=15, weights={"tpot": 1.0}))
    trial, left = raced(*of_paces({"a": 1.004, "b": 1.0, "c": 1.0}, {"a": 0.6}, by_tpot))
    assert left[0].name == "a" and left[0].rung == 1
    alike: dict[Measure, float] = {"ttft": 1.0, "tpot": 1.0}
    found = decide(trial, Evidence(trial.spec), Wishes(alike, Bars(outputs=False)))
    assert found["scores"]["a"]["upper"] < 0.9
    assert found["answer"] == "UNDECIDED" and "a, b left the race" in found["headline"]


TRADES = {"trades": 1.05, "same": 1.0}  # the first takes 5 % more a token, and 60 % less until the first


@pytest.mark.parametrize("rules", [RaceSpec(), RaceSpec(beaten=False, first_rung=15)], ids=["beaten", "rung"])
def test_the_race_goes_by_what_ranks_and_not_by_one_latency(rules: RaceSpec) -> None:
    trial, left = raced(*of_paces(TRADES, {"trades": 0.4}, changed(SPEC, race=rules)))
    assert [one.name for one in left] == ["same"]
    ranking = trial.ranking()
    assert named(ranking, "trades")["verdicts"]["tpot"]["lower"] > 1.0
    assert ranking["race"]["weights"] == {"ttft": 1.0, "tpot": 1.0}
    found = decide(trial, Evidence(trial.spec), Wishes(bars=Bars(outputs=False)))
    assert found["winner"]["name"] == "trades"


def test_weights_say_what_the_race_goes_by_and_rank_after_it() -> None:
    rules = RaceSpec(weights={"tpot": 3.0})
    trial, left = raced(*of_paces(TRADES, {"trades": 0.4}, changed(SPEC, race=rules)))
    assert [(one.name, one.by) for one in left] == [("trades", "same")]
    assert left[0].why.startswith("same (TPOT ")
    found = decide(trial, Evidence(trial.spec), Wishes(bars=Bars(outputs=False)))
    assert found["weights"] == {"tpot": 3.0} and found["passes"] == ["same"]


def test_how_much_a_latency_weighs_is_how_much_it_counts() -> None:
    rules = RaceSpec(weights={"ttft": 1.0, "tpot": 20.0})
    _, left = raced(*of_paces({"trades": 1.15, "same": 1.0}, {"trades": 0.4}, changed(SPEC, race=rules)))
    assert [(one.name, one.by) for one in left] == [("trades", "same")]


def test_one_that_left_without_proof_may_be_as_good_as_the_winner() -> None:
    trial, left = raced(*of_paces({"a": 0.75, "b": 0.752, "c": 1.0}, {}))
    assert [one.name for one in left] == ["c", "b"]
    found = decide(trial, Evidence(trial.spec), Wishes(bars=Bars(outputs=False)))
    assert found["winner"]["name"] == "a" and found["winner"]["as_good"] == ["b"]


def test_where_arms_take_turns_the_slow_leave_too() -> None:
    spec = changed(SPEC, mode="switchback", race=RaceSpec(beaten=True))
    names = spec.candidates

    def in_turns(taken: list[PairRecord]) -> list[PairRecord]:
        kept = []
        for number, record in enumerate(taken):
            block = number // 10
            away = (
                [name for at, name in enumerate(names) if at != block % 3] if record.phase == "live" else []
            )
            kept.append(replace(without(record, away), block=block))
        return kept

    trial, left = raced(spec, in_turns(records(3000)))
    assert {one.name for one in left} >= {"slow"} and trial.race.out
