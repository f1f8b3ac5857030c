"""Reading the configuration again: when asked, or when its content has changed and stays so."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from config.complaint import ConfigError
from gateway.processes.reload import Read, Reader
from tests.gateway.whole import put

LOOK_S = 0.05
PATIENCE_S = 20.0


@contextmanager
def reading(file: Path, *, watch: bool = True) -> Iterator[Reader[str]]:
    def read() -> str:
        text = file.read_text()
        if "bad" in text:
            raise ConfigError(f"{file}: bad")
        return text

    reader = Reader(read, [file], watch=watch, look_s=LOOK_S)
    try:
        yield reader
    finally:
        reader.close()


def came(reader: Reader[str]) -> Read[str]:
    """The next thing read."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        if found := reader.take():
            assert len(found) == 1
            return found[0]
        time.sleep(LOOK_S / 5)
    raise AssertionError("nothing was read")


def replaced(file: Path) -> None:
    put(file, "two")


def in_place(file: Path) -> None:
    file.write_text("two")


def linked(file: Path) -> None:
    other = file.with_name("..data")
    other.write_text("two")
    link = file.with_name("link")
    link.symlink_to(other)
    link.rename(file)


@pytest.mark.parametrize("change", [replaced, in_place, linked])
def test_a_change_of_content_is_read_once_however_it_is_made(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    file = tmp_path / "c"
    file.write_text("one")
    with reading(file) as reader:
        change(file)
        assert came(reader) == Read("two", None, ("file",))
        file.touch()  # another time, the same content
        put(file, "three")
        assert came(reader) == Read("three", None, ("file",))
        time.sleep(6 * LOOK_S)
        assert reader.take() == []


def test_a_file_that_is_still_being_written_is_left_alone_until_it_stands_still(tmp_path: Path) -> None:
    file = tmp_path / "c"
    file.write_text("one")
    with reading(file) as reader:
        text = ""
        for _ in range(15):
            text += "x"
            file.write_text(text)
            time.sleep(LOOK_S * 0.6)
        last = came(reader)
        while (last.config or "") != text:
            last = came(reader)


def test_nothing_is_watched_unless_it_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "c"
    file.write_text("one")
    with reading(file, watch=False) as reader:
        put(file, "two")
        time.sleep(6 * LOOK_S)
        assert reader.take() == []
        reader.ask("someone")
        assert came(reader) == Read("two", None, ("someone",))
        reader.watch = True
        put(file, "three")
        assert came(reader) == Read("three", None, ("file",))


def test_a_bad_content_is_told_and_the_former_one_is_read_again_when_it_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "c"
    file.write_text("one")
    with reading(file) as reader:
        put(file, "bad")
        assert came(reader) == Read(None, f"{file}: bad", ("file",))
        put(file, "one")
        assert came(reader) == Read("one", None, ("file",))
        file.unlink()
        reader.ask("someone")
        read = came(reader)
        assert read.config is None and read.error is not None and "No such file" in read.error
