"""The shared table: what each worker holds is seen by all, what a dead one held is free again."""

from pathlib import Path

import pytest

from gateway.admission.table import Table
from tests.procfs import open_files

SHAPE = (3, 2, 4, 5)  # workers, fleets, engines, key slots


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "admission.bin"


def test_every_kind_of_cell_has_its_own_place(path: Path) -> None:
    table = Table.create(path, *SHAPE)
    workers, fleets, engines, slots = SHAPE
    sizes = [
        (table.inflight, slots + 1),
        (table.running, fleets),
        (table.seats, engines),
        (table.waiting, fleets),
        (table.waiting_bytes, fleets),
        (table.head_key, fleets * 3),
        (table.head_since, fleets * 3),
    ]
    leased = [table.at(first + i, w) for first, size in sizes for i in range(size) for w in range(workers)]
    shared = [
        (table.buckets, 2 * (slots + 1)),
        (table.served, fleets * 3 * slots),
        (table.floor, fleets * 3),
        (table.turns, fleets),
        (table.turn_of, fleets * 3),
        (table.offered, fleets),
    ]
    places = leased + [first + i for first, size in shared for i in range(size)]
    assert sorted(places) == list(range(len(table.cells)))
    table.close()


def test_a_dead_workers_leases_are_taken_back_and_nothing_else(path: Path) -> None:
    table, theirs = Table.create(path, *SHAPE), Table.open(path)
    for at in range(len(table.cells)):
        table.cells[at] = 1
    theirs.zero(1)
    assert sum(table.leases(1)) == 0
    assert set(table.leases(0)) == set(table.leases(2)) == {1}
    assert set(table.cells[table.buckets :]) == {1}
    assert table.total(table.inflight) == 2
    table.close()
    theirs.close()


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 4000])
def test_another_file_is_not_taken_for_a_table(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    before = open_files()
    with pytest.raises(ValueError, match="no admission table"):
        Table.open(path)
    assert not open_files() - before


def test_the_file_is_for_this_user_only_and_replaces_one_that_is_there(path: Path) -> None:
    path.write_bytes(b"old")
    Table.create(path, *SHAPE).close()
    assert path.stat().st_mode & 0o077 == 0
    opened = Table.open(path)
    assert (opened.workers, opened.fleets, opened.engines, opened.key_slots) == SHAPE
    opened.close()
