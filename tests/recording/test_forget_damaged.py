"""A damaged file hinders nobody from forgetting what is in the others, and is said to be as it was."""

import asyncio
from pathlib import Path

import pytest

from gateway.recording.forgetting import Keeping
from tests.recording.staging import recorded
from tests.recording.test_forget import row, written
from tests.support import until
from workload.command import main
from workload.forget import ask, forget
from workload.packed import read_lines
from workload.row import from_line


def damaged(folder: Path) -> Path:
    file = written(folder, row("a", session="t"), row("b", session="u"), number=1, packing="gzip")
    content = bytearray(file.read_bytes())
    content[12] ^= 0xFF
    file.write_bytes(content)
    return file


def ids(file: Path) -> list[str | None]:
    return [from_line(line).id for line in read_lines(file)]


def test_what_is_in_the_other_files_is_forgotten_and_the_command_names_the_damaged_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn, whole = damaged(tmp_path), written(tmp_path, row("a"), row("c", session="t"), number=2)
    before = torn.read_bytes()
    done = forget([tmp_path], {"a"})
    assert (done.rows, list(done.torn)) == (1, [torn]) and ids(whole) == ["c"]
    assert main(["workload", "forget", str(tmp_path), "--text"]) == 1
    assert torn.name in capsys.readouterr().err and torn.read_bytes() == before
    assert [from_line(line).request for line in read_lines(whole)] == [None]


def test_one_that_is_damaged_after_a_row_to_be_forgotten_is_as_it_was(tmp_path: Path) -> None:
    file = written(tmp_path, row("a"), row("b"), packing="gzip")
    content = file.read_bytes()[:-8] + b"\xff" * 8  # the checksum of what came before
    file.write_bytes(content)
    done = forget([tmp_path], {"a"})
    assert (done.rows, done.texts, list(done.torn)) == (0, 0, [file])
    assert file.read_bytes() == content and list(tmp_path.iterdir()) == [file]


def test_old_text_goes_from_the_other_files(tmp_path: Path) -> None:
    damaged(tmp_path)
    whole = written(tmp_path, row("c"), number=2)
    (tmp_path / "20261130T040501Z.json").write_text('{"schema": 1, "text": true}')
    keeping = Keeping(tmp_path, 3600.0)
    assert keeping.asked() == {}
    found = keeping.look({}, whole.stat().st_mtime + 4000, "now")
    keeping.close()
    assert found.expired == 1 and len(found.torn) == 1
    assert '"text": true' in (tmp_path / "20261130T040501Z.json").read_text()


def test_who_records_forgets_what_is_in_the_others_and_goes_on_trying_until_all_was_read(
    tmp_path: Path,
) -> None:
    torn, whole = damaged(tmp_path), written(tmp_path, row("a"), row("c", session="t"), number=2)
    left = ask(tmp_path, {"a"})

    async def scene() -> None:
        async with recorded(tmp_path):
            await until(lambda: ids(whole) == ["c"], 30)
        assert left.exists()
        torn.unlink()
        async with recorded(tmp_path):
            await until(lambda: not left.exists(), 30)

    asyncio.run(scene())
