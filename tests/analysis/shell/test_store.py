"""The log: whole records or none, whatever the disk does; a file that is no log is refused in one line."""

import resource
from pathlib import Path

import msgpack
import pytest

from analysis.spec import ExperimentSpec
from analysis.store import Header, LogError, LogReader, LogWriter, open_log

SPEC = ExperimentSpec("kv", "llama", ("quick",))
HEADER = Header(1, SPEC)
RECORDS = [("pair", {"n": n, "pad": "x" * (n % 7)}) for n in range(12)]


def _write(path: Path) -> None:
    writer = LogWriter(path, HEADER)
    writer.open()
    for kind, body in RECORDS:
        writer.append(kind, body)
    writer.close()


def test_what_was_appended_is_read_back_in_order(tmp_path: Path) -> None:
    _write(tmp_path / "log")
    reader = LogReader(tmp_path / "log")
    assert reader.header == HEADER
    assert list(reader) == RECORDS and reader.torn_bytes == 0


def test_a_log_cut_anywhere_gives_the_whole_records_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "log"
    _write(path)
    whole = path.read_bytes()
    writer = LogWriter(tmp_path / "empty", HEADER)
    writer.open()
    writer.close()
    header = (tmp_path / "empty").stat().st_size
    seen = []
    for cut in range(1, len(whole)):
        path.write_bytes(whole[:cut])
        if cut < header:
            with pytest.raises(LogError, match="no whole record"):
                LogReader(path)
            continue
        reader = LogReader(path)
        found = list(reader)
        assert found == RECORDS[: len(found)]
        assert reader.end + reader.torn_bytes == cut
        seen.append(len(found))
    assert seen == sorted(seen) and set(seen) == set(range(len(RECORDS)))


def test_zeros_after_a_power_cut_are_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "log"
    _write(path)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(5000))
    reader = LogReader(path)
    assert list(reader) == RECORDS and (reader.end, reader.torn_bytes) == (size, 5000)


def test_damage_in_the_middle_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "log"
    _write(path)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"\xc1" + msgpack.packb(["pair", {}]))
    with pytest.raises(LogError, match=f"damaged at byte {size}"):
        list(LogReader(path))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no whole record"),
        (b"hello, world\n", "not a Shadowlane log"),
        (b"\x89PNG\r\n", "not a Shadowlane log"),
        (msgpack.packb(["pair", {}]), "not a Shadowlane log"),
        (msgpack.packb(["experiment", {"format": 99}]), "format 99"),
        (
            msgpack.packb(["experiment", {"format": 1, "epoch": 1, "spec": {"name": "x", "warp": 9}}]),
            "'warp'",
        ),
    ],
)
def test_a_file_that_is_no_log_is_refused_in_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(LogError, match=said) as refused:
        LogReader(path)
    assert "\n" not in str(refused.value)


def test_a_missing_file_and_a_folder_are_refused_in_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(LogError, match="cannot be read"):
            LogReader(path)


def test_a_full_disk_raises_nothing_and_loses_nothing_that_fits_in_memory(tmp_path: Path) -> None:
    """A file size limit stands in for the full disk: the kernel cuts a write short and refuses the next."""
    path = tmp_path / "log"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = LogWriter(path, HEADER)
    writer.open()
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 50, hard))
        for kind, body in RECORDS:
            writer.append(kind, body)
        waiting, error = writer.waiting, writer.error
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert waiting > 0 and error is not None
    assert list(LogReader(path)) == RECORDS[: len(RECORDS) - waiting]
    writer.append("books", {})
    assert (writer.waiting, writer.error, writer.lost) == (0, None, 0)
    writer.close()
    assert list(LogReader(path)) == [*RECORDS, ("books", {})]


def test_beyond_the_backlog_records_are_lost_and_counted(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder should be")
    writer = LogWriter(blocked / "log", HEADER, backlog_bytes=100)
    writer.open()
    for kind, body in RECORDS:
        writer.append(kind, body)
    assert writer.lost > 0 and writer.waiting + writer.lost == len(RECORDS)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", HEADER)
    writer.open()
    with pytest.raises(LogError, match="another state_dir"):
        LogWriter(tmp_path / "log", HEADER).open()
    writer.close()


def test_an_epoch_is_never_used_twice(tmp_path: Path) -> None:
    path = tmp_path / "log.msgpack"
    epochs = []
    for margin in (0.01, 0.02, 0.01, 0.03):
        spec = ExperimentSpec("kv", "llama", ("quick",), margin=margin)
        opened = open_log(path, spec)
        writer = LogWriter(path, Header(opened.epoch, spec))
        writer.open()
        writer.close()
        epochs.append(opened.epoch)
    assert epochs == [1, 2, 3, 4]
