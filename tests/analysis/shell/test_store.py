"""The log: whole records or none, whatever the disk does; a file that is no log is refused in one line."""

import resource
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.frames import Frames, framed
from analysis.packed import NAMES
from analysis.spec import ExperimentSpec
from analysis.store import FORMAT, Header, LogError, LogReader, LogWriter, open_log

SPEC = ExperimentSpec("kv", "llama", ("quick",))
HEADER = Header(1, SPEC)
RECORDS = [("load", {"n": n, "pad": "x" * (n % 7)}) for n in range(12)]


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


def _header_bytes(tmp_path: Path) -> int:
    writer = LogWriter(tmp_path / "empty", HEADER)
    writer.open()
    writer.close()
    return (tmp_path / "empty").stat().st_size


def test_a_log_cut_anywhere_gives_the_whole_records_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "log"
    _write(path)
    whole, header = path.read_bytes(), _header_bytes(tmp_path)
    seen = []
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        if cut < header:
            with pytest.raises(LogError, match="no whole record"):
                LogReader(path)
            continue
        reader = LogReader(path)
        found = list(reader)
        assert found == RECORDS[: len(found)] and reader.damage == []
        assert reader.end + reader.torn_bytes == cut
        seen.append(len(found))
    assert seen == sorted(seen) and set(seen) == set(range(len(RECORDS)))


def test_a_log_cut_anywhere_goes_on_as_if_the_record_being_written_had_never_begun(tmp_path: Path) -> None:
    path = tmp_path / "log.msgpack"
    _write(path)
    whole, header = path.read_bytes(), _header_bytes(tmp_path)
    for cut in range(header, len(whole)):
        path.write_bytes(whole[:cut])
        past = open_log(path, SPEC).past
        assert past is not None
        kept = list(past)
        writer = LogWriter(path, HEADER)
        writer.open(past.end)
        writer.append("books", {"cut": cut})
        writer.close()
        again = LogReader(path)
        assert list(again) == [*kept, ("books", {"cut": cut})]
        assert (again.torn_bytes, again.damage) == (0, [])


def test_a_byte_damaged_anywhere_costs_the_record_it_is_in_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "log"
    _write(path)
    whole, header = path.read_bytes(), _header_bytes(tmp_path)
    for at in range(len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 0x10 if at % 2 else 0xFF
        path.write_bytes(flipped)
        if at < header:
            with pytest.raises(LogError):
                LogReader(path)
            continue
        reader = LogReader(path)
        found = list(reader)
        (lost,) = [record for record in RECORDS if record not in found]
        assert found == [record for record in RECORDS if record != lost]
        if lost == RECORDS[-1]:
            assert reader.torn_bytes > 0 and reader.damage == []
        else:
            (gap,) = reader.damage
            assert gap.at <= at < gap.at + gap.length and reader.torn_bytes == 0


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_whatever_lies_between_two_records_both_are_read(before: bytes, between: bytes) -> None:
    frames = [framed("a", msgspec.msgpack.encode(n)) for n in range(2)]
    found = Frames(BytesIO(before + frames[0] + between + frames[1]))
    assert [body for kind, body in found if kind == "a"] == [b"\x00", b"\x01"]
    assert sum(gap.length for gap in found.damage) == len(before) + len(between)


def test_a_record_longer_than_a_read_and_a_mark_across_two_reads_are_found() -> None:
    large = framed("large", msgspec.msgpack.encode(b"\xf5" * (3 << 20)))
    for junk in range((1 << 20) - 3, (1 << 20) + 2):
        found = Frames(BytesIO(b"\xf5" * junk + large))
        assert [kind for kind, _ in found] == ["large"] and found.damage[0].length == junk


def test_zeros_after_a_power_cut_are_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "log"
    _write(path)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(5000))
    reader = LogReader(path)
    assert list(reader) == RECORDS and (reader.end, reader.torn_bytes) == (size, 5000)


def test_a_log_whose_beginning_is_damaged_is_refused_and_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "log"
    _write(path)
    path.write_bytes(b"\0" + path.read_bytes()[1:])
    with pytest.raises(LogError, match="damaged at its beginning"):
        LogReader(path)


def _begin(**values: Any) -> bytes:
    begin = {"format": FORMAT, "epoch": 1, "spec": asdict(SPEC), "names": NAMES, **values}
    return framed("experiment", msgspec.msgpack.encode(begin))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no whole record"),
        (b"hello, world\n", "not a Shadowlane log"),
        (b"\x89PNG\r\n", "not a Shadowlane log"),
        (framed("load", b"\x80"), "not a Shadowlane log"),
        (b"\x92\xaaexperiment\x83\xa6format\x01", "format 1"),
        (_begin(format=99), "format 99"),
        (_begin(spec={"name": "x", "warp": 9}), "'warp'"),
        (_begin(names={"answer": ["arm", "warp"], "pair": ["id"]}), "'warp' of each answer"),
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
