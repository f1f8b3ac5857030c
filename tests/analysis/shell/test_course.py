"""One experiment's course: reboots, frames that are too many or too large, a bug that one pair shows."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgpack
import pytest

from analysis.board import Board
from analysis.course import Course, MalformedError
from analysis.inbox import Frame, Inbox, Peer, listen
from analysis.measure import PairRecord, measure
from analysis.report import report, to_json
from analysis.store import LogReader
from tests.analysis.shell.frames import SPEC, books, pair
from tests.analysis.trials import SPEC as TRIAL
from tests.analysis.trials import named, records


def _course(folder: Path, now_ns: int = 10**15) -> Course:
    course = Course(SPEC, folder, now_ns=lambda: now_ns)
    course.load()
    return course


def _instants(folder: Path) -> list[int]:
    return [body.at_ns for kind, body in LogReader(folder / SPEC.name / "log.msgpack") if kind == "pair"]


def test_after_a_reboot_the_log_goes_on_in_order_although_the_clock_starts_anew(tmp_path: Path) -> None:
    first = _course(tmp_path)
    for n in range(3):
        first.pair(pair(n, "calibration")[1])
    first.close()
    booted_ns = 5 * 10**9
    second = _course(tmp_path, now_ns=booted_ns)
    frame = pair(3, "calibration")[1]
    by_ns = frame["at_ns"] - booted_ns
    early = _moved(frame, -by_ns)
    second.pair(early)
    second.close()
    instants = _instants(tmp_path)
    assert instants == sorted(instants) and len(instants) == 4
    before, after = measure(early), _pairs(tmp_path)[-1]
    assert [a.sent_ns - after.at_ns for a in after.answers] == [
        a.sent_ns - before.at_ns for a in before.answers
    ]


def _pairs(folder: Path) -> list[PairRecord]:
    return [body for kind, body in LogReader(folder / SPEC.name / "log.msgpack") if kind == "pair"]


def _moved(value: Any, by_ns: int) -> Any:
    """The frame with every instant moved."""
    if isinstance(value, dict):
        moved = {
            k: v + by_ns if k.endswith("_ns") and v is not None else _moved(v, by_ns)
            for k, v in value.items()
        }
        return (
            {**moved, "reads": [[at + by_ns, data] for at, data in value["reads"]]}
            if "reads" in value
            else moved
        )
    return [_moved(item, by_ns) for item in value] if isinstance(value, list) else value


def test_the_log_holds_no_text_of_any_answer(tmp_path: Path) -> None:
    course = _course(tmp_path)
    frame = pair(0, "calibration")[1]
    secret = b'data: {"choices":[{"index":0,"delta":{"content":"sesame"},"finish_reason":"open sesame"}]}\n\n'
    frame["answers"][0]["reads"].insert(0, [frame["at_ns"] + 1, secret])
    course.pair(frame)
    course.close()
    assert b"sesame" not in (tmp_path / SPEC.name / "log.msgpack").read_bytes()


@pytest.mark.parametrize("broken", [{"at_ns": "noon"}, {"answers": 5}, {"answers": [{}]}, {"path": None}])
def test_a_pair_that_is_none_is_refused_and_not_logged(tmp_path: Path, broken: dict[str, Any]) -> None:
    course = _course(tmp_path)
    with pytest.raises(MalformedError):
        course.pair({**pair(0, "calibration")[1], **broken})
    course.close()
    assert _instants(tmp_path) == []


def test_a_full_inbox_drops_pairs_counts_them_and_the_books_still_close(tmp_path: Path) -> None:
    async def run() -> None:
        course = _course(tmp_path)
        board = Board("0", [course], lambda *_, **__: None, inbox=Inbox(max_frames=5))
        peer = Peer(board.inbox, board.greet, board.take, 1 << 20)
        for n in range(9):
            kind, body = pair(n, "calibration")
            board.take(Frame(kind, body, 1000, peer))
        kind, body = books(9, 9)
        board.take(Frame(kind, body, 50, peer))
        assert board.inbox.dropped["inbox_full"] == 4
        await board.finish(10)
        found = course.ranking()
        assert found["pairs"] == 5
        assert found["books"] == {"admitted": 9, "paired": 5, "dropped": {"analysis_inbox_full": 4}}

    asyncio.run(run())


def test_a_bug_that_one_pair_shows_costs_that_pair_only(tmp_path: Path) -> None:
    def measured(frame: Mapping[str, Any]) -> PairRecord:
        return 1 // 0 if frame["id"] == "r1" else measure(frame)  # type: ignore[return-value]

    async def run() -> None:
        course = Course(SPEC, tmp_path, measured=measured)
        course.load()
        board = Board("0", [course], lambda *_, **__: None)
        peer = Peer(board.inbox, board.greet, board.take, 1 << 20)
        for kind, body in [*(pair(n, "calibration") for n in range(3)), books(3, 3)]:
            board.take(Frame(kind, body, 100, peer))
        await board.finish(10)
        assert course.ranking()["books"] == {"admitted": 3, "paired": 2, "dropped": {"analysis_failed": 1}}
        assert board.status()["troubles"] == {"analysis_failed": 1}

    asyncio.run(run())


def test_a_frame_above_the_limit_ends_its_connection_before_it_is_held(tmp_path: Path) -> None:
    async def run() -> None:
        inbox = Inbox()
        taken: list[Frame] = []
        server = await listen(tmp_path / "o.sock", inbox, lambda _: None, taken.append, frame_bytes=4096)
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "o.sock"))
        writer.write(
            msgpack.packb(["status", {"process": "a"}]) + msgpack.packb(["pair", {"x": b"y" * 100_000}])
        )
        try:
            assert await asyncio.wait_for(reader.read(), 30) == b""
        except ConnectionError:
            pass
        assert [frame.kind for frame in taken] in ([], ["status"]) and inbox.dropped["malformed"] == 1
        writer.close()
        server.close()

    asyncio.run(run())


def test_how_late_the_shadow_was_outlives_a_restart_and_what_says_nothing_of_it_is_refused(
    tmp_path: Path,
) -> None:
    first = _course(tmp_path)
    first.late({"timers": 300, "late": 30, "worst_ms": 900.0})
    with pytest.raises(MalformedError):
        first.late({"timers": 300})
    said = first.ranking()
    first.close()
    second = _course(tmp_path)
    assert second.ranking() == said
    assert {c["name"]: c["ok"] for c in said["checks"]}["harness"] is False
    second.close()


def test_how_much_of_a_replay_is_done_is_logged_when_it_changes_and_is_known_after_a_restart(
    tmp_path: Path,
) -> None:
    course = _course(tmp_path)
    for turns in (3, 3, 4):
        course.books({"admitted": 1, "paired": 1, "dropped": {}, "replay": {"turns": turns, "of": 4}})
    live = course.ranking()["replay"]
    course.close()
    told = [body for kind, body in LogReader(tmp_path / SPEC.name / "log.msgpack") if kind == "books"]
    assert [body["replay"]["turns"] for body in told] == [3, 4]
    again = _course(tmp_path)
    assert again.ranking()["replay"] == live == {"turns": 4, "of": 4, "over": True}
    again.close()


@pytest.mark.parametrize("told", [{"turns": 1}, {"turns": "x", "of": 1}, 5])
def test_a_word_on_a_replay_that_is_none_is_refused(tmp_path: Path, told: Any) -> None:
    course = _course(tmp_path)
    with pytest.raises(MalformedError):
        course.books({"admitted": 1, "paired": 1, "dropped": {}, "replay": told})
    course.close()


def test_percentiles_are_made_while_nothing_else_comes_and_queries_do_not_wait_for_them(
    tmp_path: Path,
) -> None:
    taken = records(1300)
    waiting = iter(taken)
    course = Course(TRIAL, tmp_path, measured=lambda _frame: next(waiting), now_ns=lambda: 10**15)

    async def run() -> None:
        board = Board("0", [course], lambda *_args, **_values: None)
        await board.load()
        for _ in taken:
            course.pair({})

        async def said() -> dict[str, Any]:
            ranking = await board.ranking(TRIAL.name)
            assert ranking is not None
            found: dict[str, Any] = named(ranking, "slow")["percentiles"]["e2e"]["p99"]
            return found  # of the last to be made

        assert (await said())["refused"] == "1300 pairs: the first figures are being made"
        following = asyncio.get_running_loop().create_task(board.follow())
        async with asyncio.timeout(60):
            while (await said())["ratio"] is None:
                await asyncio.sleep(0.2)
        following.cancel()
        live = await board.ranking(TRIAL.name)
        await board.finish(5.0)
        assert to_json(live) == to_json(report(tmp_path / TRIAL.name / "log.msgpack"))

    asyncio.run(run())
