"""A stop does not wait for what the analysis computes: what was judged is in the log, and reads as it was."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

from analysis.board import Board
from analysis.course import Course
from analysis.inbox import Frame, Peer
from analysis.measure import PairRecord, measure
from analysis.store import NAME, LogReader
from tests.analysis.test_texts import SPEC, pair
from tests.support import until


def test_a_stop_ends_while_a_pair_is_under_way_and_what_was_logged_is_whole(tmp_path: Path) -> None:
    begun, let_go, notices = Event(), Event(), list[str]()

    def measured(frame: Mapping[str, Any]) -> PairRecord:
        if frame["id"] == "slow":
            begun.set()
            let_go.wait()
        return measure(frame)

    async def run() -> None:
        board = Board(
            "0", [Course(SPEC, tmp_path, measured=measured)], lambda what, **_: notices.append(what)
        )
        await board.load()
        peer = Peer(board.inbox, lambda _: None, board.take, 1 << 20)
        for id in ("quick", "slow", "never"):
            board.take(Frame("pair", {"experiment": "trial", **pair(id)}, 1000, peer))
        work = asyncio.get_running_loop().create_task(board.follow())
        await until(begun.is_set)
        work.cancel()
        async with asyncio.timeout(30):
            await board.finish(0.05)  # as long as the pair is under way it would wait for ever
        assert not let_go.is_set() and "work_left" in notices

    try:
        asyncio.run(run())
        records = [body for kind, body in LogReader(tmp_path / "trial" / NAME) if kind == "pair"]
        assert [record.id for record in records] == ["quick"]
    finally:
        let_go.set()
