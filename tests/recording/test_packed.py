"""Files of lines: whatever was written can be read, wherever the file stops."""

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workload.packed import ENDINGS, Lines, Packing, TornError, read_lines

PACKINGS: tuple[Packing, ...] = ("zstd", "gzip", "none")
objects = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\n{}"), max_size=40).map(
        lambda text: b"{" + text.encode() + b"}"
    ),
    max_size=12,
)


@pytest.mark.parametrize("packing", PACKINGS)
@given(lines=objects)
@settings(max_examples=40, deadline=None)
def test_what_was_written_is_read_though_the_file_was_never_ended(
    packing: Packing, lines: list[bytes]
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "a" + ENDINGS[packing])
        file = Lines(path, packing)
        for at, line in enumerate(lines):
            file.add(line + b"\n")
            assert [*read_lines(path)] == lines[: at + 1]
        file.close()
        assert [*read_lines(path)] == lines and file.size == path.stat().st_size


@pytest.mark.parametrize("packing", PACKINGS)
@given(lines=objects, cut=st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_a_file_cut_anywhere_gives_its_first_lines(packing: Packing, lines: list[bytes], cut: float) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "a" + ENDINGS[packing])
        file = Lines(path, packing)
        for line in lines:
            file.add(line + b"\n")
        file.close()
        whole = path.read_bytes()
        path.write_bytes(whole[: round(cut * len(whole))])
        found = [*read_lines(path)]
        assert found == lines[: len(found)]


@pytest.mark.parametrize(("packing", "program"), [("zstd", "zstd"), ("gzip", "gzip")])
def test_the_usual_programs_read_it(tmp_path: Path, packing: Packing, program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    path = tmp_path / ("a" + ENDINGS[packing])
    file = Lines(path, packing)
    for n in range(5):
        file.add(b'{"n":%d}\n' % n)
    torn = subprocess.run([program, "-dc", path], capture_output=True, check=False)
    assert torn.stdout == b"".join(b'{"n":%d}\n' % n for n in range(5)) and torn.returncode != 0
    file.close()
    whole = subprocess.run([program, "-dc", path], capture_output=True, check=True)
    assert whole.stdout == torn.stdout


@pytest.mark.parametrize("ending", [".zst", ".gz"])
def test_what_is_not_packed_as_its_name_says_is_told_by_name(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.jsonl{ending}"
    path.write_bytes(b"certainly not compressed at all")
    with pytest.raises(TornError, match=path.name):
        list(read_lines(path))


def test_two_files_one_after_the_other_are_one_file(tmp_path: Path) -> None:
    for packing in PACKINGS:
        parts = []
        for name in ("a", "b"):
            file = Lines(tmp_path / (name + ENDINGS[packing]), packing)
            file.add(b'{"%b":1}\n' % name.encode())
            file.close()
            parts.append(file.path.read_bytes())
        both = tmp_path / ("both" + ENDINGS[packing])
        both.write_bytes(b"".join(parts))
        assert [*read_lines(both)] == [b'{"a":1}', b'{"b":1}']
