"""The load table: what every worker adds is what every worker sees, and the dead do not weigh."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleets.loads import LoadTable

WORKERS, ENGINES = 3, 4
WORKER = st.integers(0, WORKERS - 1)
ENGINE = st.integers(0, ENGINES - 1)
CELLS = st.tuples(*[st.integers(-(1 << 40), 1 << 40)] * 4)
ADDED = st.tuples(st.just("add"), WORKER, ENGINE, CELLS)
ZEROED = st.tuples(st.just("zero"), WORKER, st.just(0), st.just((0, 0, 0, 0)))


@contextmanager
def table(workers: int = WORKERS, engines: int = ENGINES) -> Iterator[tuple[LoadTable, Path]]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "loads.bin"
        made = LoadTable.create(path, workers, engines)
        try:
            yield made, path
        finally:
            made.close()


@given(st.lists(ADDED | ZEROED, max_size=40))
def test_totals_are_the_sum_of_all_rows_and_never_negative(
    steps: list[tuple[str, int, int, tuple[int, ...]]],
) -> None:
    with table() as (ours, path):
        theirs = LoadTable.open(path)
        expected = [[[0] * 4 for _ in range(ENGINES)] for _ in range(WORKERS)]
        for what, worker, engine, cells in steps:
            if what == "add":
                ours.row(worker).add(engine, *cells)
                expected[worker][engine] = [
                    a + b for a, b in zip(expected[worker][engine], cells, strict=True)
                ]
            else:
                theirs.zero(worker)
                expected[worker] = [[0] * 4 for _ in range(ENGINES)]
        for engine in range(ENGINES):
            sums = tuple(max(0, sum(row[engine][cell] for row in expected)) for cell in range(4))
            assert ours.totals(engine) == theirs.totals(engine) == sums
            assert theirs.span(0, ENGINES)[engine] == sums
            for worker in range(WORKERS):
                assert theirs.row(worker).load(engine) == tuple(expected[worker][engine])
        theirs.close()


def test_a_worker_that_dies_in_the_middle_leaves_the_load_of_the_others() -> None:
    with table() as (loads, _path):
        loads.row(0).add(1, 2, 300, 1, 900)
        loads.row(2).add(1, 5, 700, 2, 950)
        loads.zero(2)
        assert loads.totals(1) == (2, 300, 1, 900)
        loads.row(2).add(1, -5, -700, -2, -950)  # its last words, after it was given up
        assert loads.totals(1) == (0, 0, 0, 0)


def test_an_engine_outside_the_table_is_refused() -> None:
    with table() as (loads, _path), pytest.raises(IndexError):
        loads.row(0).add(ENGINES, 1, 0)


def test_a_table_of_one_worker_and_no_engine_is_fine() -> None:
    with table(1, 0) as (loads, _path):
        loads.zero(0)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 400])
def test_another_file_is_not_taken_for_a_table(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "loads.bin").write_bytes(content)
    with pytest.raises(ValueError, match="no load table"):
        LoadTable.open(tmp_path / "loads.bin")


def test_a_table_cut_short_is_not_opened() -> None:
    with table() as (_loads, path):
        whole = path.read_bytes()
        cut = path.with_name("cut.bin")
        cut.write_bytes(whole[:-8])
        with pytest.raises(ValueError, match="no load table"):
            LoadTable.open(cut)


def test_the_file_is_for_this_user_only() -> None:
    with table() as (_loads, path):
        assert path.stat().st_mode & 0o077 == 0
