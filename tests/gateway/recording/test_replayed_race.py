"""A replay passes over a candidate that left the race, and the others get all of it."""

from pathlib import Path

import pytest

from gateway.recording.replayed import replayable
from mirror.spec import ArmSpec
from tests.gateway.recording.test_replayed import asked, experiment, over, row, status, written
from tests.mirror.scripted import engine, tokens
from tests.mirror.staging import phase_frame, play, shadow, until

EVERYTHING = [f"request {n}" for n in range(6)]


@pytest.mark.parametrize("gone", ["c1", "c2"])
def test_one_that_has_left_gets_nothing_and_its_turns_are_over_at_once(tmp_path: Path, gone: str) -> None:
    file = written(tmp_path, [row(n, 100.0 * n) for n in range(6)])  # two slots of three

    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as one, engine(tokens) as two:
            arms = ArmSpec("control", control.url), ArmSpec("c1", one.url), ArmSpec("c2", two.url)
            told = experiment(file, *arms, rounds=1)
            async with shadow(tmp_path, told, phase=None, recorded=replayable) as stage:
                stage.analysis.tell(phase_frame("fp8-kv", "live", out=[gone]))
                await over(stage)
                assert (status(stage)["turns"], status(stage)["spared"]) == (4, 2)
                assert status(stage)["replay"]["left_s"] == 0.0
                assert stage.books["replay"] == {"turns": 4, "of": 4}
            stays, left = (two, one) if gone == "c1" else (one, two)
            assert asked(left) == []
            assert sorted(asked(stays)) == sorted(asked(control)) == sorted(EVERYTHING)
            books = stage.books
            assert (books["admitted"], books["paired"], books["dropped"], books["open"]) == (6, 6, {}, 0)

    play(run)


def test_one_that_leaves_on_the_way_gets_no_more_and_the_other_misses_nothing(tmp_path: Path) -> None:
    file = written(tmp_path, [row(n, 100.0 * n) for n in range(6)])

    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as one, engine(tokens) as two:
            arms = ArmSpec("control", control.url), ArmSpec("c1", one.url), ArmSpec("c2", two.url)
            told = experiment(file, *arms, rounds=2)
            async with shadow(tmp_path, told, phase=None, recorded=replayable) as stage:
                stage.analysis.tell(phase_frame("fp8-kv", "live"))
                await until(lambda: bool(asked(one)))
                stage.analysis.tell(phase_frame("fp8-kv", "live", out=["c1"]))
                comparison = stage.serving.comparisons["fp8-kv"]
                await until(lambda: "c1" in comparison.phase.out)
                begun = comparison.reached.blocks  # of these the last may be its own
                await over(stage)
                assert status(stage)["turns"] == 8
            pairs = stage.analysis.of("pair")
            late = {answer["arm"] for pair in pairs if pair["block"] >= begun for answer in pair["answers"]}
            assert late == {"control", "c2"}
            assert sorted(asked(two)) == sorted(2 * EVERYTHING)
            books = stage.books
            assert books["admitted"] == books["paired"] and not books["dropped"] and not books["open"]

    play(run)
