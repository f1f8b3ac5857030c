"""What changes a verdict begins a new epoch of the experiment, each alone: at a reload, after a restart."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from analysis.board import Board
from analysis.course import Course
from analysis.spec import AnalysisSpec
from analysis.store import LogReader
from tests.analysis.test_texts import pair
from tests.gateway.test_compose_turns import config, told

OTHERS = [
    {"candidate": "http://spare:3"},
    {"candidates": [{"name": "other", "engine": "http://spare:2"}]},
    {"alpha": 0.01},
    {"margin": 0.1},
    {"window_s": 5},
]
SAME = [{"warm_up_s": 3}, {"sample": {"rate": 0.5}}, {"text_bytes": 4096}, {"paused": True}]
every_other = pytest.mark.parametrize("other", OTHERS, ids=lambda other: next(iter(other)))


def course(folder: Path, **more: Any) -> Course:
    settings: dict[str, Any] = {"candidate": "http://spare:2", "calibration_s": 0, **more}
    written = told(config(**settings))
    assert isinstance(written.analysis, AnalysisSpec)
    (spec,) = written.analysis.experiments
    return Course(spec, folder)


def judged(one: Course, number: int) -> None:
    """A pair of the experiment, whatever its candidate is called."""
    frame = pair(f"p{number}")
    frame["answers"][1] |= {"arm": one.spec.candidates[0]}
    one.pair(frame)


def logged(folder: Path, name: str) -> tuple[int, int]:
    """A log's epoch, and how many pairs it holds."""
    reader = LogReader(folder / "fp8" / name)
    return reader.header.epoch, sum(kind == "pair" for kind, _ in reader)


@every_other
def test_after_a_restart_the_log_is_put_aside_whole_and_the_new_epoch_begins_with_nothing(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    before = course(tmp_path)
    before.load()
    for number in range(3):
        judged(before, number)
    before.close()
    after = course(tmp_path, **other)
    after.load()
    assert (before.epoch, after.epoch) == (1, 2) and after.ranking()["pairs"] == 0
    judged(after, 3)
    after.close()
    assert logged(tmp_path, "log.epoch-1.msgpack") == (1, 3) and logged(tmp_path, "log.msgpack") == (2, 1)


@every_other
def test_at_a_reload_it_does_so_too(tmp_path: Path, other: dict[str, Any]) -> None:
    async def run() -> list[tuple[str, int, int]]:
        seen: list[tuple[str, int, int]] = []
        now = course(tmp_path)
        board = Board("0", [now], lambda *_, **__: None)
        await board.load()
        for more in ({}, other, other, {}):
            written = course(tmp_path, **more)
            if seen:
                await board.renew([written], ())
                now = now if now.spec == written.spec else written
            (name,) = board.names()
            judged(now, len(seen))
            (one,) = board.status()["experiments"]
            found = await board.ranking(name)
            assert found is not None
            seen.append((one["phase"], one["epoch"], found["pairs"]))
        await board.finish(10)
        return seen

    seen = asyncio.run(run())
    assert [epoch for _, epoch, _ in seen] == [1, 2, 2, 3]
    assert [pairs for _, _, pairs in seen] == [1, 1, 2, 1]


@pytest.mark.parametrize("same", SAME, ids=lambda same: next(iter(same)))
def test_what_changes_no_verdict_goes_on_where_it_was(tmp_path: Path, same: dict[str, Any]) -> None:
    before = course(tmp_path)
    before.load()
    judged(before, 0)
    before.close()
    after = course(tmp_path, **same)
    after.load()
    assert after.epoch == 1 and after.ranking()["pairs"] == 1
    after.close()
    assert before.spec == after.spec
