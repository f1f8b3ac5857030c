"""A slip in what was typed forgets nothing, and is told: what is forgotten is gone for good."""

from pathlib import Path

import pytest

from tests.recording.test_forget import row, written
from workload.command import main


def status(*typed: str) -> int:
    """The exit status of `workload forget`, whoever gives it."""
    try:
        return main(["workload", "forget", *typed])
    except SystemExit as left:
        return int(left.code or 0)


@pytest.mark.parametrize("option", ["--days", "--wait"])
@pytest.mark.parametrize("value", ["-1", "-0.001", "nan", "inf", "-inf", "soon", ""])
def test_only_a_number_of_at_least_0_is_an_age_or_a_wait(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, row("a"))
    before = file.read_bytes()
    assert status(str(tmp_path), "--text", f"{option}={value}") == 2
    assert f"argument {option}: expected a number of at least 0, not {value!r}" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_an_age_of_0_is_every_file_and_an_age_is_of_text_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, row("a"))
    before = file.read_bytes()
    assert status(str(tmp_path), "--id", "a", "--days", "7") == 2
    assert "--days goes with --text" in capsys.readouterr().err
    assert file.read_bytes() == before
    assert status(str(tmp_path), "--text", "--days", "0") == 0
    assert "the text of 1 others" in capsys.readouterr().err
