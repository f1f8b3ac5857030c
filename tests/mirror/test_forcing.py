"""A phase in which all arms decode the control's tokens: emulated engines that can, and one that cannot."""

from dataclasses import replace
from pathlib import Path
from random import Random

from msgspec.structs import replace as changed

from analysis.measure import PairRecord, measure
from analysis.ranking import Trial
from analysis.spec import ExperimentSpec
from emulator.params import EngineParams
from emulator.server import start
from mirror.spec import ArmSpec
from tests.analysis.fleet import pair_record
from tests.mirror.forcible import forcible
from tests.mirror.scripted import engine
from tests.mirror.staging import Stage, copy_frame, experiment, play, served_frame, shadow, until

CAN = EngineParams(model="llama", speed=40.0, hiccup_rate=0.0, output_tokens=8.0, trace_replay=True)
# Another model: left to itself it says other things, and as many as it likes.
OTHER = replace(CAN, model_seed=9)


async def feed(stage: Stage, copies: int) -> None:
    _, lane = await stage.worker()
    for number in range(copies):
        lane.write(copy_frame(str(number), 2 * number) + served_frame(str(number)))
    await until(lambda: bool(stage.analysis.of("pair")))
    lane.close()


def test_all_arms_decode_the_controls_tokens_at_one_moment(tmp_path: Path) -> None:
    async def run() -> None:
        control, other = await start(CAN), await start(OTHER)
        try:
            arms = ArmSpec("control", control.url, kind="vllm"), ArmSpec("c1", other.url, kind="vllm")
            async with shadow(tmp_path, experiment(*arms, max_inflight=500), phase="forced") as stage:
                _, lane = await stage.worker()
                number = 0

                def forced() -> list[dict[str, object]]:
                    return [p for p in stage.analysis.of("pair") if p["mark"] is None]

                while len(forced()) < 5:  # the first ones come while it is asked who can
                    number += 2
                    lane.write(copy_frame(str(number), number) + served_frame(str(number)))
                    await until(lambda: len(stage.analysis.of("pair")) >= number // 2)  # noqa: B023
                lane.close()
            sources = {p["id"]: measure(p) for p in stage.analysis.of("pair") if p["mark"] == "forced_source"}
            for pair in forced():
                record = measure(pair)
                assert record.phase == "forced" and record.production is None
                assert [a.forced for a in record.answers] == [True, True]
                ours, theirs = record.answer("control"), record.answer("c1")
                assert ours is not None and theirs is not None and ours.fault is theirs.fault is None
                said = sources[str(pair["id"]).partition("~")[0]].answer("control")
                assert said is not None
                assert ours.completion_tokens == theirs.completion_tokens == said.completion_tokens
                assert record.outputs["c1"]["exact_match"] == 1.0
            assert stage.books["rewrites"]["c1"]["forced_tokens"] >= 5
            assert stage.books["admitted"] == stage.books["paired"] + sum(stage.books["dropped"].values())
        finally:
            await control.close()
            await other.close()

    play(run)


def test_one_that_says_it_can_and_then_says_other_tokens_is_told_answer_by_answer(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(forcible()) as control, engine(forcible(lies=True)) as other:
            arms = ArmSpec("control", control.url), ArmSpec("c1", other.url)
            async with shadow(tmp_path, experiment(*arms), phase="forced") as stage:
                sequel = stage.serving.comparisons["fp8-kv"]._sequels.now
                assert sequel is not None
                await until(lambda: sequel.ready)
                _, lane = await stage.worker()
                lane.write(copy_frame("a", 2) + served_frame("a"))
                await until(lambda: len(stage.analysis.of("pair")) == 2)
                lane.close()
        (pair,) = (
            pair for pair in stage.analysis.of("pair") if pair["phase"] == "forced" and not pair["mark"]
        )
        assert {answer["arm"]: answer["forced"] for answer in pair["answers"]} == {
            "control": True,
            "c1": False,
        }
        assert {answer.arm: answer.forced for answer in measure(pair).answers} == {
            "control": True,
            "c1": False,
        }

    play(run)


def test_an_engine_that_cannot_is_found_out_and_nothing_is_forced(tmp_path: Path) -> None:
    async def run() -> None:
        control, other = await start(CAN), await start(replace(CAN, trace_replay=False))
        try:
            arms = ArmSpec("control", control.url, kind="vllm"), ArmSpec("c1", other.url, kind="vllm")
            async with shadow(tmp_path, experiment(*arms), phase="forced") as stage:
                await until(lambda: bool(stage.analysis.of("unforced")))
                await feed(stage, 3)
            told = stage.analysis.of("unforced")[0]
            assert told["why"] == "c1 does not decode tokens it is given (status 400)"
            assert {pair["mark"] for pair in stage.analysis.of("pair")} == {"forced_source"}
        finally:
            await control.close()
            await other.close()

    play(run)


SPEC = ExperimentSpec("t", "m", ("c1",), calibration_s=0, calibration_pairs=2, forced_pairs=3)


def test_the_analysis_goes_on_where_nothing_can_be_forced_and_says_why() -> None:
    trial = Trial(SPEC)
    trial.calibrate()
    assert str(trial.phase) == "forced"
    trial.undone("forced", "c1 does not decode tokens it is given (status 404)")
    assert str(trial.phase) == "live"
    assert trial.ranking()["forced"]["why"].startswith("c1 does not")


def test_without_such_a_phase_the_trial_is_live_after_its_calibration() -> None:
    trial = Trial(replace(SPEC, forced_pairs=0))
    trial.calibrate()
    assert trial.phase == "live" and trial.ranking()["forced"] is None


def told(number: int, did: bool) -> PairRecord:
    record = pair_record(number, {"c1": 1.0}, phase="forced", rng=Random(number))
    return changed(record, answers=tuple(changed(answer, forced=did) for answer in record.answers))


def test_the_phase_lasts_for_so_many_pairs_and_counts_no_other() -> None:
    trial = Trial(SPEC)
    trial.calibrate()
    for number, did in enumerate([True, False, True]):
        trial.add(told(number, did))
        assert str(trial.phase) == "forced"
    trial.add(told(3, True))
    assert str(trial.phase) == "live" and trial.ranking()["forced"]["pairs"] == 3
    assert trial.ranking()["control"]["n"] == 0  # the arms' figures are of what they say by themselves


def test_engines_that_take_the_tokens_and_say_others_end_the_phase() -> None:
    trial = Trial(SPEC)
    trial.calibrate()
    for number in range(10):
        trial.add(told(number, False))
    assert str(trial.phase) == "live"
    assert trial.ranking()["forced"]["why"] == "control answers otherwise than it is told"
