"""A second engine of the control's configuration gets the calibration's copies as arms do, and no others."""

import json
from pathlib import Path
from typing import Any

import pytest

from mirror.readiness import Readiness
from mirror.spec import TWIN, ArmSpec, MirrorExperiment, SlotSpec
from tests.mirror.scripted import Engine, busy, engine, tokens
from tests.mirror.staging import copy_frame, experiment, phase_frame, play, served_frame, shadow, until

ROOTS = range(40)


def told(control: Engine, fast: Engine, twin: Engine, **more: Any) -> MirrorExperiment:
    arms = ArmSpec("control", control.url, kind="vllm"), ArmSpec("fp8", fast.url, kind="vllm")
    return experiment(*arms, twin=ArmSpec(TWIN, twin.url, kind="vllm"), max_inflight=1000, **more)


def bodies(of: Engine) -> list[Any]:
    """What an engine was asked, in an order of its own."""
    return sorted((json.loads(request.body) for request in of.requests), key=lambda body: json.dumps(body))


def test_it_gets_every_copy_once_as_the_arms_do_and_its_answer_is_the_controls_second(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as fast, engine(tokens) as twin:
            async with shadow(tmp_path, told(control, fast, twin), "calibration") as stage:
                _, lane = await stage.worker()
                for (
                    root
                ) in ROOTS:  # of odd and of even root: no conversation is left out, for none is sent twice
                    lane.write(copy_frame(f"{root}", root) + served_frame(f"{root}"))
                await until(lambda: len(stage.analysis.of("pair")) == len(ROOTS))
                lane.close()
            assert bodies(control) == bodies(twin) == bodies(fast)
            assert len(control.requests) == len(ROOTS)
            assert not any("cache_salt" in body for body in bodies(twin))
            pairs = stage.analysis.of("pair")
            keys = {("control", 0), ("control", 1), ("fp8", 0)}
            assert all({(a["arm"], a["twin"]) for a in pair["answers"]} == keys for pair in pairs)
            first = {(pair["answers"][0]["arm"], pair["answers"][0]["twin"]) for pair in pairs}
            assert first == keys  # each of them is sent to first at times: the order is drawn anew
            assert stage.books["rewrites"][TWIN]["return_token_ids"] == len(ROOTS)

    play(run)


def test_once_the_trial_has_begun_it_gets_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as fast, engine(tokens) as twin:
            async with shadow(tmp_path, told(control, fast, twin), "calibration") as stage:
                _, lane = await stage.worker()
                lane.write(copy_frame("1.0", 1, 0) + served_frame("1.0"))
                await until(lambda: len(stage.analysis.of("pair")) == 1)
                stage.analysis.tell(phase_frame("fp8-kv", "live"))
                await until(lambda: stage.serving.comparisons["fp8-kv"].phase.name == "live")
                lane.write(copy_frame("1.1", 1, 1) + served_frame("1.1"))  # a conversation goes on
                lane.write(copy_frame("2.0", 2, 0) + served_frame("2.0"))
                await until(lambda: len(stage.analysis.of("pair")) == 3)
                lane.close()
            assert (len(control.requests), len(fast.requests), len(twin.requests)) == (3, 3, 1)
            late = stage.analysis.of("pair")[1:]
            assert all({a["arm"] for a in pair["answers"]} == {"control", "fp8"} for pair in late)
            assert all({a["twin"] for a in pair["answers"]} == {0} for pair in late)

    play(run)


def test_while_it_is_not_ready_copies_wait_in_the_calibration_and_not_after_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control:
            twin = ArmSpec(TWIN, "http://127.0.0.1:1", mark="launched")
            one = experiment(ArmSpec("control", control.url), twin=twin)
            readiness = Readiness()
            async with shadow(tmp_path, one, "calibration", readiness=readiness) as stage:
                _, lane = await stage.worker()
                lane.write(copy_frame("1", 1))
                await until(lambda: bool(stage.analysis.of("books")) and stage.books["admitted"] == 1)
                assert stage.books["dropped"] == {"arm_not_ready": 1}
                stage.analysis.tell(phase_frame("fp8-kv", "live"))
                await until(lambda: stage.serving.comparisons["fp8-kv"].phase.name == "live")
                lane.write(copy_frame("2", 2) + served_frame("2"))
                await until(lambda: len(stage.analysis.of("pair")) == 1)
                lane.close()

    play(run)


def test_one_that_was_launched_is_ready_once_that_is_said() -> None:
    twin = ArmSpec(TWIN, "http://127.0.0.1:2", mark="m")
    one = experiment(ArmSpec("control", "http://127.0.0.1:1"), twin=twin)
    readiness = Readiness()
    assert readiness.lacking(one) == [TWIN]
    said = {"ready": [["fp8-kv", TWIN, "m"]], "forgone": [], "fares": [], "losses": 0}
    readiness.told(json.dumps(said).encode())
    assert readiness.lacking(one) == []


def test_one_that_fails_counts_against_the_experiment_as_an_arm_does(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            engine(tokens) as control,
            engine(tokens) as fast,
            engine(busy) as twin,
            shadow(tmp_path, told(control, fast, twin), "calibration") as stage,
        ):
            _, lane = await stage.worker()
            lane.write(copy_frame("1", 1) + served_frame("1"))
            await until(lambda: len(stage.analysis.of("pair")) == 1)
            answers = stage.analysis.of("pair")[0]["answers"]
            assert {(a["arm"], a["twin"]): a["status"] for a in answers}["control", 1] == 503
            comparison = stage.serving.comparisons["fp8-kv"]
            assert {arm.spec.name: arm.failures for arm in comparison.engines}[TWIN] == 1
            assert [arm.spec.name for arm in comparison.arms] == ["control", "fp8"]  # whose load is told
            lane.close()

    play(run)


@pytest.mark.parametrize(
    "wrong",
    [
        {"twin": ArmSpec("another", "http://127.0.0.1:2")},
        {"twin": ArmSpec(TWIN, "http://127.0.0.1:2"), "slots": SlotSpec(1.0)},
    ],
)
def test_a_spec_of_one_that_takes_turns_or_has_another_name_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="second control"):
        experiment(ArmSpec("control", "http://127.0.0.1:1"), **wrong)
