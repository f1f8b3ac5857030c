"""Where arms take turns a block is the unit, and its pairs are judged as those of arms side by side."""

from dataclasses import replace
from random import Random
from typing import Any

from msgspec.structs import replace as changed

from analysis.measure import PairRecord
from analysis.ranking import Trial
from tests.analysis.fleet import MS
from tests.analysis.trials import PACES, SPEC, check, labels, named, records

TURNS = replace(SPEC, mode="switchback")
PAIRS = 20  # a block
SLOT_NS = 600 * 10**9


def in_turns(blocks: int, effect: float = 0.0) -> list[PairRecord]:
    """Blocks of pairs, each with a candidate in turn; `effect`: the sd of what a slot has of its own."""
    taken = records(blocks * PAIRS)
    calibrating, live = taken[: -blocks * PAIRS], taken[-blocks * PAIRS :]
    names, rng = list(PACES), Random(5)
    lots = [2.718281828 ** rng.gauss(0.0, effect) for _ in range(blocks)]

    def turned(number: int, record: PairRecord) -> PairRecord:
        block = number // PAIRS
        at_ns = record.at_ns + 2 * SLOT_NS * block
        name = names[block % len(names)]
        answers = []
        for answer in record.answers:
            late_ns = 0 if answer.arm == "control" else SLOT_NS
            scale = 1.0 if answer.arm == "control" else lots[block]
            tpot_ms = None if answer.tpot_ms is None else answer.tpot_ms * scale
            sent_ns = answer.sent_ns - record.at_ns + at_ns + late_ns
            if answer.arm in ("control", name):
                order = int(answer.arm != "control")
                end_ns = sent_ns + answer.end_ns - answer.sent_ns
                answers.append(changed(answer, sent_ns=sent_ns, end_ns=end_ns, order=order, tpot_ms=tpot_ms))
        outputs = {name: record.outputs[name]}
        return changed(
            record, at_ns=at_ns, answers=tuple(answers), outputs=outputs, block=block, shifts={name: SLOT_NS}
        )

    return calibrating + [turned(number, record) for number, record in enumerate(live)]


def ranked(blocks: int, effect: float = 0.0) -> dict[str, Any]:
    trial = Trial(TURNS)
    for record in in_turns(blocks, effect):
        trial.add(record)
    return trial.ranking()


def test_a_block_is_one_unit_and_the_pairs_are_judged_as_ever() -> None:
    ranking = ranked(62)
    assert ranking["windows"] == 60  # the last two are not over yet
    assert labels(ranking)["quick"] == "FASTER" and labels(ranking)["slow"] == "SLOWER"
    assert named(ranking, "same")["verdicts"]["tpot"]["units"] == 20
    assert check(ranking, "dispatch_order") is True and check(ranking, "dispatch_lag") is True


def test_what_a_whole_slot_has_of_its_own_is_no_difference_between_arms() -> None:
    """20 pairs of one block are one observation: an engine's lucky start is not twenty."""
    ranking = ranked(92, effect=0.1)
    assert labels(ranking)["same"] == "UNDECIDED"
    spread = named(ranking, "same")["verdicts"]["tpot"]["spread"]
    assert 0.06 < spread < 0.16


def test_how_many_blocks_there_were_is_known_from_the_records_marked_ones_too() -> None:
    trial = Trial(TURNS)
    taken = in_turns(6)
    for record in taken:
        trial.add(changed(record, mark="warm_up") if record.block == 5 else record)
    assert (trial.blocks, trial.turns) == (6, 6)
    calibrating = Trial(TURNS)
    calibrating.add(changed(taken[0], block=8))
    assert (calibrating.blocks, calibrating.turns) == (9, 0)


def test_a_slot_that_repeats_late_is_told() -> None:
    trial = Trial(TURNS)
    for record in in_turns(30):
        late = tuple(
            changed(a, sent_ns=a.sent_ns + 90 * MS) if a.arm != "control" else a for a in record.answers
        )
        trial.add(changed(record, answers=late) if record.block is not None else record)
    assert check(trial.ranking(), "dispatch_lag") is False


def test_how_the_control_was_held_against_itself_is_recorded() -> None:
    taken = records(0)
    ways = (("twins", None, SPEC), ("slots", 3, SPEC), ("engine", None, replace(SPEC, twin="http://t:1")))
    for by, block, spec in ways:
        trial = Trial(spec)
        for record in taken:
            trial.add(changed(record, block=block))
        assert trial.ranking()["calibration"]["by"] == by
        assert trial.calibration is not None and trial.calibration["by"] == by
