"""A tokenizer that cannot be used is found before anything starts, and named with its place."""

from pathlib import Path

import pytest

from gateway.cli import main

pytest.importorskip("tokenizers", reason="pip install tokenizers")

FILE = Path(__file__).parents[2] / "e2e" / "tiny-llama" / "tokenizer.json"


def written(folder: Path, tokenizer: Path) -> Path:
    path = folder / "shadowlane.yaml"
    path.write_text(
        "fleets: [{model: m, engines: [{url: http://127.0.0.1:9}]}]\n"
        "experiments:\n"
        "  - name: e\n"
        "    control: {engine: http://127.0.0.1:10}\n"
        "    candidates: [{name: c, engine: http://127.0.0.1:11}]\n"
        f"    tokenizer: {tokenizer}\n"
    )
    return path


@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_file_that_is_not_there_is_named_with_its_place(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone.json"
    assert main([command, "--config", str(written(tmp_path, gone))]) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path / 'shadowlane.yaml'}:6: experiments[0].tokenizer: expected" in said
    assert f"{gone} cannot be read: No such file" in said


def test_the_variable_that_names_the_file_is_told_where_it_was_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHADOWLANE_EXPERIMENTS__0__TOKENIZER", str(tmp_path / "gone.json"))
    assert main(["check", "--config", str(written(tmp_path, FILE))]) == 2
    assert "SHADOWLANE_EXPERIMENTS__0__TOKENIZER: experiments[0].tokenizer" in capsys.readouterr().err


def test_a_path_that_no_file_can_have_is_a_complaint_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--config", str(written(tmp_path, Path('"a\\0b"')))]) == 2
    said = capsys.readouterr().err
    assert "experiments[0].tokenizer: expected a tokenizer.json that can be read" in said
    assert "cannot be read: embedded null byte" in said


def test_one_that_can_be_read_is_no_complaint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "--config", str(written(tmp_path, FILE))])  # its engines are not there
    said = capsys.readouterr()
    assert "tokenizer" not in said.err + said.out and "not reachable" in said.out
