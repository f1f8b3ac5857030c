"""The files that workers share with the process that reads KV events: the board, and the table of each time.

The supervisor makes the board before any child starts.  A table is a file of its own for each generation: the
writer makes a larger one when it needs it, says so on the board, and takes the old one away; who still maps
that goes on reading it until it sees the board's word.
"""

import mmap
import os
from pathlib import Path
from typing import Final

from routing.events.board import WORDS, Board
from routing.events.reader import Reader

_WORD_BYTES: Final = 8
_BOARD: Final = "kv-board.bin"


def create_board(run_dir: Path) -> None:
    """A board on which nothing is, readable by this user only."""
    path = run_dir / _BOARD
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(fd, WORDS * _WORD_BYTES)
    finally:
        os.close(fd)


def open_board(run_dir: Path) -> Board | None:
    """The board that `create_board` made; None where there is none."""
    memory = _map(run_dir / _BOARD, write=True)
    return None if memory is None or len(memory) != WORDS * _WORD_BYTES else Board(memory.cast("Q"))


def open_known(run_dir: Path) -> Reader | None:
    """What a worker knows of the engines' caches; None where nobody writes it, as for a worker run alone."""
    board = open_board(run_dir)
    if board is None:
        return None
    return Reader(board, lambda generation: open_table(run_dir, generation))


def clear_board(run_dir: Path) -> None:
    """Have workers forget what they know: the process that wrote it is gone."""
    board = open_board(run_dir)
    if board is not None:
        board.clear()
        board.release()


class Tables:
    """The writer's hold on its table's file."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._past: list[Path] = list(run_dir.glob("kv-table-*.bin"))

    def new(self, generation: int, words: int) -> memoryview:
        """The memory of a new table, all zeros; the one before the last goes."""
        while len(self._past) > 1:
            self._past.pop(0).unlink(missing_ok=True)
        path = _table(self._run_dir, generation)
        path.unlink(missing_ok=True)
        self._past.append(path)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(fd, words * _WORD_BYTES)
            return memoryview(mmap.mmap(fd, words * _WORD_BYTES)).cast("Q")
        finally:
            os.close(fd)


def open_table(run_dir: Path, generation: int) -> memoryview | None:
    """The table of a generation, to be read; None when it is gone already."""
    memory = _map(_table(run_dir, generation), write=False)
    return None if memory is None else memory.cast("Q")


def _table(run_dir: Path, generation: int) -> Path:
    return run_dir / f"kv-table-{generation}.bin"


def _map(path: Path, *, write: bool) -> memoryview | None:
    try:
        fd = os.open(path, os.O_RDWR if write else os.O_RDONLY)
    except OSError:
        return None
    try:
        size = os.fstat(fd).st_size
        access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
        return memoryview(mmap.mmap(fd, size, access=access)) if size else None
    finally:
        os.close(fd)
