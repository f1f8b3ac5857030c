"""The index: what the log has, however often it is asked, lost or left behind; never more than the log."""

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace as changed

from analysis.index import BY, Index
from analysis.measure import PairRecord
from analysis.store import Header, LogError, LogWriter
from tests.analysis.trials import SPEC, records

RECORDS = [
    changed(record, outputs={arm: {"first_divergence": n / 1000} for arm in record.outputs})
    for n, record in enumerate(records(60))
]


def write(path: Path, taken: list[PairRecord], epoch: int = 1, keep_bytes: int = 0) -> None:
    writer = LogWriter(path, Header(epoch, SPEC))
    writer.open(keep_bytes)
    for record in taken:
        writer.append("pair", record)
        writer.append("load", {"span_s": 5.0})
    writer.close()


def index_of(path: Path) -> Index:
    index = Index(path)
    index.catch_up()
    return index


@pytest.mark.parametrize("by", BY)
def test_the_largest_come_first_of_all_candidates_or_one(tmp_path: Path, by: str) -> None:
    write(tmp_path / "log.msgpack", RECORDS)
    index = index_of(tmp_path / "log.msgpack")
    found = index.most(by, 7)  # type: ignore[arg-type]
    figures = [getattr(one, by) for one in found]
    assert len(found) == 7 and figures == sorted(figures, reverse=True)
    assert {one.candidate for one in index.most(by, 7, "quick")} == {"quick"}  # type: ignore[arg-type]
    assert all(one.phase == "live" for one in found)  # the calibration compares nothing
    index.close()


def test_every_pair_is_found_as_the_log_has_it(tmp_path: Path) -> None:
    write(tmp_path / "log.msgpack", RECORDS)
    index = index_of(tmp_path / "log.msgpack")
    assert [index.pair(record.id) for record in RECORDS] == RECORDS
    assert index.pair("nobody") is None
    index.close()


def test_what_is_appended_is_taken_in_once_whoever_looks(tmp_path: Path) -> None:
    path = tmp_path / "log.msgpack"
    write(path, RECORDS[:210])
    first, second = index_of(path), index_of(path)
    write(path, RECORDS[210:], keep_bytes=path.stat().st_size)
    first.catch_up()
    second.catch_up()
    for index in (first, second):
        assert len(index.most("differs", 1000, "quick")) == 60
        assert index.pair(RECORDS[-1].id) == RECORDS[-1]
        index.close()


def test_what_another_process_has_taken_in_meanwhile_is_not_taken_in_again(tmp_path: Path) -> None:
    path = tmp_path / "log.msgpack"
    write(path, RECORDS)
    late = Index(path)
    begin = late.end
    index_of(path).close()
    rows = [("again", "quick", 1, begin, "live", None, 1.0, None, None, None, None, None)]
    assert not late._keep(rows, begin, begin + 1)
    late.catch_up()
    assert late.pair("again") is None and len(late.most("differs", 1000, "quick")) == 60
    late.close()


def orders_of(path: Path) -> set[str]:
    with closing(sqlite3.connect(path.with_name("log.index.sqlite"))) as db:
        return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}


def test_much_that_is_put_in_order_at_the_end_is_found_as_little_is(tmp_path: Path) -> None:
    one, other = tmp_path / "one" / "log.msgpack", tmp_path / "other" / "log.msgpack"
    for path in (one, other):
        write(path, RECORDS[:80])
    little, much = index_of(one), Index(other, many_bytes=0)
    for path in (one, other):  # more than there was, so that all is put in order anew
        write(path, RECORDS[80:], keep_bytes=path.stat().st_size)
    little.catch_up()
    much.catch_up()
    for by in BY:
        assert much.most(by, 20) == little.most(by, 20) != []
    assert [much.pair(record.id) for record in RECORDS] == RECORDS
    assert orders_of(other) == orders_of(one) == {"by_id", "by_differs", "by_ttft", "by_tpot", "by_e2e"}
    little.close()
    much.close()


def test_what_was_not_put_in_order_before_the_end_is_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "log.msgpack"
    write(path, RECORDS)
    index_of(path).close()
    with closing(sqlite3.connect(path.with_name("log.index.sqlite"))) as db:
        db.execute("DROP INDEX by_ttft")
        db.execute("DROP INDEX by_id")
    index = index_of(path)
    assert orders_of(path) == {"by_id", "by_differs", "by_ttft", "by_tpot", "by_e2e"}
    assert index.pair(RECORDS[-1].id) == RECORDS[-1]
    index.close()


@pytest.mark.parametrize("content", [b"", b"no database", None])
def test_an_index_that_is_lost_or_damaged_is_made_anew(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "log.msgpack"
    write(path, RECORDS)
    index_of(path).close()
    (place,) = tmp_path.glob("*.sqlite")
    place.unlink() if content is None else place.write_bytes(content)
    index = index_of(path)
    assert len(index.most("differs", 1000, "quick")) == 60
    index.close()


def test_another_log_in_its_place_has_another_index(tmp_path: Path) -> None:
    path = tmp_path / "log.msgpack"
    write(path, RECORDS)
    index_of(path).close()
    path.unlink()
    write(path, RECORDS[:205], epoch=2)
    index = index_of(path)
    assert len(index.most("differs", 1000, "quick")) == 4 and index.pair(RECORDS[-1].id) is None
    index.close()


@pytest.mark.parametrize("is_there", [False, True])
def test_it_and_its_journal_are_as_private_as_the_log(tmp_path: Path, is_there: bool) -> None:
    path, kept = tmp_path / "log.msgpack", tmp_path / "log.index.sqlite"
    write(path, RECORDS)
    if is_there:
        index_of(path).close()
        kept.chmod(0o644)
    before = os.umask(0o022)
    try:
        index_of(path).close()
        with closing(sqlite3.connect(kept)) as other:
            other.execute("UPDATE about SET end = end + 1")  # not committed: its journal is there
            modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.glob("log.*")}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("log.msgpack", kept.name, f"{kept.name}-journal"), 0o600)


def test_where_nothing_can_be_written_it_is_made_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.msgpack"
    write(path, RECORDS)
    (tmp_path / "log.index.sqlite").mkdir()
    index = index_of(path)
    assert len(index.most("differs", 1000, "quick")) == 60
    index.close()


def test_a_damaged_log_is_indexed_without_what_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "log.msgpack"
    write(path, RECORDS)
    whole = bytearray(path.read_bytes())
    for at in Random(3).sample(range(3000, len(whole)), 5):
        whole[at] ^= 0xFF
    path.write_bytes(whole)
    index = index_of(path)
    known = [record for record in RECORDS if index.pair(record.id) is not None]
    assert len(RECORDS) - 5 <= len(known) < len(RECORDS)
    assert all(index.pair(record.id) == record for record in known)
    index.close()


def test_what_is_no_log_has_no_index(tmp_path: Path) -> None:
    (tmp_path / "log.msgpack").write_bytes(b"hello")
    with pytest.raises(LogError, match="not a Shadowlane log"):
        Index(tmp_path / "log.msgpack")


def test_pairs_that_are_marked_are_no_worst_pairs(tmp_path: Path) -> None:
    write(tmp_path / "log.msgpack", [*RECORDS[:-1], changed(RECORDS[-1], mark="warm_up")])
    index = index_of(tmp_path / "log.msgpack")
    assert RECORDS[-1].id not in {one.id for one in index.most("differs", 1000)}
    assert replace(index.spec) == SPEC
    index.close()
