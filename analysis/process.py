"""What the analysis process does: listens for observations, keeps the experiments, serves the admin API."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from analysis.board import Board
from analysis.course import Course
from analysis.inbox import listen
from analysis.measure import PairRecord, measure
from analysis.scrubbing import Scrubbing
from analysis.spec import AnalysisSpec, ExperimentSpec, TextSpec
from analysis.store import LogError
from analysis.supervision import Supervision
from analysis.text_files import forget_others
from analysis.tokenizer import LazyCount
from analysis.web.app import start_admin

_FINISH_S = 5.0
_LOOK_S = 1.0

# A new list of experiments, and whom to tell once it holds (None) or why it could not.
Changes = AsyncIterator[tuple[AnalysisSpec, Callable[[str | None], None]]]


async def serve_analysis(
    spec: AnalysisSpec,
    stop: asyncio.Event,
    *,
    changes: Changes | None = None,
    supervision: Supervision | None = None,
) -> None:
    """Run until `stop` is set; then finish what has already come, for a few seconds at most.

    `changes` bring other experiments while it runs; `supervision` is the supervisor's word on the config.
    Listens on `<run_dir>/observations.sock`, writes the admin server's address to `<run_dir>/admin.addr`.
    Raises LogError when another Shadowlane writes the same logs, OSError when an address cannot be bound.
    """
    log = structlog.get_logger("analysis")
    run_dir = Path(spec.run_dir)
    os.makedirs(run_dir, exist_ok=True)
    courses, scrubbing = _courses(spec), Scrubbing(log)
    board = Board(
        spec.version,
        courses,
        log.info,
        supervision=supervision,
        embedders=spec.embedders,
        scrubbing=scrubbing,
    )
    admin = await start_admin(
        board, spec.admin_host, spec.admin_port, os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    )
    try:
        _write(run_dir / "admin.addr", f"{admin.host}:{admin.port}")
        log.info("admin_listening", address=f"{admin.host}:{admin.port}")
        observations = await listen(run_dir / "observations.sock", board.inbox, board.greet, board.take)
        try:
            await board.load()
            await asyncio.to_thread(_forget_texts_of_others, spec)
            await _until(stop, board, changes)
        finally:
            observations.close()
            for peer in list(board.inbox.peers):
                peer.close()
            await board.finish(_FINISH_S)
            await scrubbing.close()
    finally:
        await admin.close()


async def _until(stop: asyncio.Event, board: Board, changes: Changes | None) -> None:
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(board.follow(), name="follow the inbox"),
            tasks.create_task(_look(board), name="look after texts"),
        ]
        if changes is not None:
            running.append(tasks.create_task(_renew(board, changes), name="follow the configuration"))
        await stop.wait()
        for task in running:
            task.cancel()


async def _look(board: Board) -> None:
    while True:
        await asyncio.sleep(_LOOK_S)
        await board.look()


async def _renew(board: Board, changes: Changes) -> None:
    async for spec, done in changes:
        courses = _courses(spec)
        try:
            await board.renew(courses, spec.anew, spec.embedders)
        except LogError as error:
            done(str(error))
        else:
            await asyncio.to_thread(_forget_texts_of_others, spec)
            done(None)


def _forget_texts_of_others(spec: AnalysisSpec) -> None:
    log = structlog.get_logger("analysis")
    try:
        gone = forget_others(Path(spec.state_dir), [one.name for one in spec.experiments])
    except OSError as error:
        log.warning("texts_not_forgotten", error=str(error))
        return
    for name in gone:
        log.info("texts_forgotten", experiment=name)


def _courses(spec: AnalysisSpec) -> list[Course]:
    folder = Path(spec.state_dir)
    return [
        Course(
            one,
            folder,
            measured=_measuring(one),
            keep=spec.retention,
            texts=spec.texts.get(one.name, TextSpec()),
            prices=spec.prices,
        )
        for one in spec.experiments
    ]


def _measuring(spec: ExperimentSpec) -> Callable[[Mapping[str, Any]], PairRecord]:
    if not spec.tokenizer:
        return measure
    log = structlog.get_logger("analysis")

    def failed(why: str) -> None:
        log.warning("tokenizer_failed", experiment=spec.name, error=why)

    return partial(measure, count=LazyCount(Path(spec.tokenizer), failed))


def _write(path: Path, text: str) -> None:
    """Whole or not at all: who waits for the file never reads half of it."""
    half = path.with_suffix(".half")
    half.write_text(text + "\n")
    os.replace(half, path)
