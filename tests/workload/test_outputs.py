"""What a command reads is never what it writes, by whatever name either goes."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

from tests.workload.test_model import traffic
from workload.command import main
from workload.outputs import writable

TO = ["--to", "http://127.0.0.1:1"]


def recording(folder: Path) -> Path:
    folder.mkdir()
    file = folder / "rows.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in traffic(Random(4), 20)))
    return file


@pytest.mark.parametrize(
    "argv",
    [
        lambda file: ["replay", file, *TO, "--out", file],
        lambda file: ["replay", file, *TO, "--json", file],
        lambda file: ["workload", "fit", file, "--out", file],
        lambda file: ["workload", "generate", file, "--out", file],
        lambda file: ["workload", "export", file, "--out", file],
    ],
)
@pytest.mark.parametrize("name", ["itself", "its folder", "a link", "another spelling"])
def test_no_command_writes_over_what_it_reads(
    argv: Callable[[str], list[str]], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = recording(tmp_path / "rec")
    before = file.read_bytes()
    link = tmp_path / "link.jsonl"
    link.symlink_to(file)
    spelled = {
        "itself": file,
        "its folder": file.parent,
        "a link": link,
        "another spelling": file.parent / ".." / "rec" / file.name,
    }
    typed = argv("READ")
    *others, last = [at for at, one in enumerate(typed) if one == "READ"]
    for at in others:
        typed[at] = str(spelled[name])
    typed[last] = str(file)
    assert main(typed) == 2
    assert "is read, and would be overwritten" in capsys.readouterr().err
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "argv",
    [
        lambda out: ["replay", "READ", *TO, "--out", out],
        lambda out: ["replay", "READ", *TO, "--json", out],
        lambda out: ["workload", "fit", "READ", "--out", out],
        lambda out: ["workload", "generate", "READ", "--out", out],
        lambda out: ["workload", "export", "READ", "--out", out],
    ],
)
def test_nothing_new_is_written_into_a_folder_that_is_read(
    argv: Callable[[str], list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rec = recording(tmp_path / "rec").parent
    (rec / "link.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")  # its name is read there
    (tmp_path / "in.jsonl").symlink_to(rec / "new.jsonl")
    (tmp_path / "same").symlink_to(rec)
    for out in (
        rec / "new.jsonl",
        rec / "link.jsonl",
        tmp_path / "in.jsonl",
        tmp_path / "same" / "new.jsonl",
    ):
        typed = [str(rec) if one == "READ" else one for one in argv(str(out))]
        assert main(typed) == 2
        assert f"{out} would stand in {rec}, which is read" in capsys.readouterr().err
    assert not (rec / "new.jsonl").exists() and not (tmp_path / "elsewhere.jsonl").exists()


@pytest.mark.parametrize("there", ["20261130T040501Z-0001.jsonl.zst", "20261130T040501Z.json"])
def test_rows_are_written_among_no_recordings_files_whatever_is_read(
    there: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = recording(tmp_path / "rec"), tmp_path / "other"
    other.mkdir()
    (other / there).touch()
    for what in ("generate", "export"):
        for out in (other / "new.jsonl", other / "new.jsonl.zst"):
            assert main(["workload", what, str(file), "--out", str(out)]) == 2
            assert f"part of the recording in {other}" in capsys.readouterr().err
    writable([other / "model.json"], read=[file])  # no rows: nobody reads it for traffic
    assert [one.name for one in other.iterdir()] == [there]


def test_a_generated_model_is_kept_beside_the_traffic_that_it_becomes(tmp_path: Path) -> None:
    file = recording(tmp_path / "rec")
    model = tmp_path / "traffic.json"
    assert main(["workload", "fit", str(file), "--block-tokens", "16", "--out", str(model)]) == 0
    before = model.read_bytes()
    assert main(["workload", "generate", str(model), "--out", str(model)]) == 2
    assert main(["workload", "generate", str(model), "--out", str(tmp_path / "traffic.jsonl")]) == 0
    assert model.read_bytes() == before and json.loads(before)["block_tokens"] == 16


def test_a_file_is_written_into_a_folder_that_is_there_and_once(tmp_path: Path) -> None:
    writable([None, tmp_path / "new.json", tmp_path / "other.json"], read=[tmp_path / "none.jsonl"])
    with pytest.raises(ValueError, match="there is no folder"):
        writable([tmp_path / "no" / "new.json"])
    with pytest.raises(ValueError, match="is a folder"):
        writable([tmp_path])
    with pytest.raises(ValueError, match="named twice"):
        writable([tmp_path / "new.json", tmp_path / "new.json"])
