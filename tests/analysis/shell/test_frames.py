"""A log is read while it is written: what was torn when it was first read is no damage once it is whole."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import Any, cast

import pytest

from analysis.frames import Damage, Frames, framed

RECORDS = [framed("pair", bytes((0x91, number)) * 3) for number in range(4)]
BODIES = [("pair", bytes((0x91, number)) * 3) for number in range(4)]
WHOLE = len(RECORDS[0])


class BeingWritten(FileIO):
    """A file whose writer goes on each time that its reader has come to the end."""

    def __init__(self, path: Path, parts: list[bytes]) -> None:
        path.write_bytes(parts[0])
        super().__init__(path)
        self._path = path
        self._parts = parts[1:]

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(-1 if size is None else size) or b""
        if not found and self._parts:
            with self._path.open("ab") as writer:
                writer.write(self._parts.pop(0))
        return found


Read = Callable[..., tuple[Frames, list[tuple[str, bytes]]]]


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Read]:
    """Reads a log that is written in such parts, to its end and then once more."""
    with ExitStack() as files:

        def read(*parts: bytes) -> tuple[Frames, list[tuple[str, bytes]]]:
            file = files.enter_context(BeingWritten(tmp_path / "log", list(parts)))
            frames = Frames(cast(Any, file))
            return frames, [*frames, *frames]

        yield read


@pytest.mark.parametrize("cut", range(1, 3 * WHOLE))
def test_no_record_is_lost_that_was_being_written_when_it_was_read(read: Read, cut: int) -> None:
    log = b"".join(RECORDS)
    frames, found = read(log[: WHOLE + cut], log[WHOLE + cut :])
    assert (found, frames.damage, frames.end) == (BODIES, [], len(log))


@pytest.mark.parametrize("cut", range(1, WHOLE))
def test_what_is_damaged_beside_it_is_told_alone(read: Read, cut: int) -> None:
    damaged = RECORDS[1][:-1] + bytes((RECORDS[1][-1] ^ 1,))
    frames, found = read(RECORDS[0] + damaged + RECORDS[2][:cut], RECORDS[2][cut:] + RECORDS[3])
    assert found == [BODIES[0], *BODIES[2:]]
    assert frames.damage == [Damage(WHOLE, WHOLE)]


def test_a_reader_that_came_to_a_torn_end_goes_on_once_it_is_whole(read: Read) -> None:
    frames, found = read(RECORDS[0] + RECORDS[1][:5], b"", RECORDS[1][5:])
    assert (found, frames.damage, frames.end) == (BODIES[:2], [], 2 * WHOLE)


def test_what_a_full_disk_took_back_and_was_written_otherwise_is_read_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(RECORDS[0] + RECORDS[1][:9])
    with path.open("rb") as file:
        frames = Frames(file)
        assert list(frames) == BODIES[:1]
        path.write_bytes(RECORDS[0] + RECORDS[2] + RECORDS[3])
        assert list(frames) == BODIES[2:]
        assert frames.damage == []
