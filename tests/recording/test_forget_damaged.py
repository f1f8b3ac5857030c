"""What cannot be read of a damaged recording may be what is to be forgotten: it goes with it, and what was
before it stays.  A file that is no recording's is as it was, and hinders nobody."""

import asyncio
import os
from pathlib import Path

import pytest

from gateway.recording.forgetting import Keeping
from tests.recording.staging import at_rest, recorded
from tests.recording.test_forget import CANARY, row, written
from tests.support import until
from workload.command import main
from workload.forget import ask, forget
from workload.packed import ENDINGS, Lines, Packing, read_lines
from workload.row import from_line, to_line

PACKINGS: list[Packing] = ["zstd", "gzip", "none"]


def broken(file: Path, at: int) -> Path:
    content = bytearray(file.read_bytes())
    content[at] ^= 0xFF
    file.write_bytes(content)
    return file


def damaged(folder: Path, number: int = 1) -> Path:
    """A recording's file in which nothing can be read."""
    return broken(
        written(folder, row("a", session="t"), row("b", session="u"), number=number, packing="gzip"), 0
    )


def stopped(folder: Path, packing: Packing, *whole: str) -> Path:
    """What a kill leaves in the middle of a line: these rows, and half of one with text that ends nowhere."""
    lines = Lines(folder / f"20261130T040501Z-0001{ENDINGS[packing]}", packing)
    for id in whole:
        lines.add(to_line(row(id, session=id, request=None, answer=None)))
    lines.add(to_line(row("half"))[:-20])
    lines.close(ended=False)
    return lines.path


def ids(file: Path) -> list[str | None]:
    return [from_line(line).id for line in read_lines(file)]


def test_the_rest_of_a_damaged_file_goes_with_what_is_forgotten_and_what_was_read_before_it_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = [row(f"k{n}", session=f"k{n}") for n in range(200)]
    long = written(tmp_path, *kept, row("a"), row("z", session="z"), packing="gzip")
    broken(long, -6)  # the checksum of all that came before
    torn, whole = damaged(tmp_path, 3), written(tmp_path, row("a"), row("c", session="t"), number=2)
    assert main(["workload", "forget", str(tmp_path), "--id", "a"]) == 0
    said = capsys.readouterr().err
    assert f"{torn}" in said and "what could not be read after that is removed" in said
    assert ids(whole) == ["c"] and ids(torn) == []
    left = ids(long)
    assert left[:190] == [f"k{n}" for n in range(190)] and "a" not in left
    assert {path.name for path in tmp_path.iterdir()} == {long.name, torn.name, whole.name, ".lock"}
    assert main(["workload", "forget", str(tmp_path), "--id", "a"]) == 0  # they are whole files now
    assert "could not be read" not in capsys.readouterr().err


@pytest.mark.parametrize("packing", PACKINGS)
def test_half_a_line_that_a_kill_left_is_at_rest_no_longer_than_other_text(
    tmp_path: Path, packing: Packing
) -> None:
    file = stopped(tmp_path, packing, "one", "two")
    was = file.stat()
    assert main(["workload", "forget", str(tmp_path), "--text", "--days", "1"]) == 0
    assert file.stat().st_size == was.st_size  # it is younger
    assert main(["workload", "forget", str(tmp_path), "--text"]) == 0
    assert ids(file) == ["one", "two"] and CANARY not in at_rest(tmp_path)[0]
    assert file.stat().st_mtime_ns == was.st_mtime_ns and file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("packing", PACKINGS)
def test_half_a_line_may_be_the_request_that_is_to_be_forgotten(tmp_path: Path, packing: Packing) -> None:
    file = stopped(tmp_path, packing)
    done = forget([tmp_path], {"half"})
    assert (done.rows, done.texts, done.busy, done.torn) == (0, 0, [], {})
    assert ids(file) == [] and CANARY not in at_rest(tmp_path)[0]


def test_a_file_that_is_being_written_is_left_alone_and_hinders_nobody(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "20261130T040501Z-0001.jsonl", "none")
    lines.add(to_line(row("x"))[:-20])
    before = lines.path.read_bytes()
    done = forget([tmp_path], {"a"})
    assert (done.busy, done.cut, done.torn) == ([], {}, {}) and lines.path.read_bytes() == before
    lines.close()


def test_old_text_goes_from_damaged_files_too_and_from_files_that_are_old_only(tmp_path: Path) -> None:
    torn, half = damaged(tmp_path), stopped(tmp_path, "none", "one")
    young = broken(written(tmp_path, row("y"), number=2, packing="gzip"), 0)
    os.utime(young, (2e9, 2e9))
    beside = tmp_path / "20261130T040501Z.json"
    beside.write_text('{"schema": 1, "text": true}')
    keeping, before = Keeping(tmp_path, 3600.0), young.read_bytes()
    assert keeping.asked() == {}
    found = keeping.look({}, half.stat().st_mtime + 4000, "now")
    assert len(found.cut) == 1 and str(torn) in found.cut[0] and not found.torn
    assert (ids(torn), ids(half), young.read_bytes()) == ([], ["one"], before)
    assert '"text": true' in beside.read_text()  # one is young
    again = keeping.look({}, 2e9 + 4000, "now")
    keeping.close()
    assert len(again.cut) == 1 and ids(young) == [] and '"text": false' in beside.read_text()
    assert CANARY not in at_rest(tmp_path)[0]


def test_a_damaged_file_that_is_no_recordings_is_as_it_was_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = damaged(tmp_path).rename(tmp_path / "traffic.jsonl.gz")
    whole = written(tmp_path, row("a"), row("c", session="t"), number=2)
    before = other.read_bytes()
    assert main(["workload", "forget", str(tmp_path), "--id", "a"]) == 1
    assert f"{other}" in capsys.readouterr().err and other.read_bytes() == before and ids(whole) == ["c"]
    done = forget([tmp_path], {"c"})
    assert (done.rows, list(done.torn), done.cut) == (1, [other], {})


def test_who_records_does_it_too_and_goes_on_trying_where_a_file_is_as_it_was(tmp_path: Path) -> None:
    torn, whole = damaged(tmp_path), written(tmp_path, row("a"), row("c", session="t"), number=2)
    other = damaged(tmp_path, 3).rename(tmp_path / "traffic.jsonl.gz")
    left = ask(tmp_path, {"a"})

    async def scene() -> None:
        async with recorded(tmp_path):
            await until(lambda: ids(whole) == ["c"], 30)
        assert left.exists() and ids(torn) == []
        other.unlink()
        async with recorded(tmp_path):
            await until(lambda: not left.exists(), 30)

    asyncio.run(scene())
