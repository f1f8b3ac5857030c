"""The workers' common lock, between real processes: one at a time, stalled by nobody, free when one dies."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.admission import lock
from gateway.admission.table import Table

ROOT = Path(__file__).resolve().parents[2]
SHAPE = (3, 1, 1, 1)
_START = """
import sys
from gateway.admission.table import Table
table = Table.open(sys.argv[1])
"""
HOLD = _START + "table.lock(); print(table.lock_missed, flush=True); sys.stdin.read(1); table.unlock()"
# As a careless program would: what is read may be old by the time it is written, unless others are kept out.
COUNT = (
    _START
    + """
at = table.floor
for _ in range(20_000):
    table.lock()
    table.cells[at] = table.cells[at] + 1
    table.unlock()
print(table.lock_missed, flush=True)
"""
)


@pytest.fixture(params=["mutex", "file"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Table]:
    """With both locks; the file's is for systems without the other."""
    made = Table.create(tmp_path / "admission.bin", *SHAPE, locks_file=request.param == "file")
    yield made
    made.close()


def other(table: Table, program: str) -> subprocess.Popen[str]:
    """Another worker."""
    return subprocess.Popen(
        [sys.executable, "-c", program, str(table.path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_here_it_is_the_one_that_costs_no_call_into_the_kernel(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "admission.bin", *SHAPE)
    assert isinstance(table._lock, lock.Mutex if sys.platform == "linux" else lock.FileLock | lock.Mutex)
    table.close()


def test_no_step_under_the_lock_is_lost(table: Table) -> None:
    workers = [other(table, COUNT) for _ in range(3)]
    missed = 0
    for worker in workers:
        missed += int(heard(worker))
        worker.communicate()
    lacking = 60_000 - table.cells[table.floor]
    assert 0 <= lacking <= missed, "as many as went without, at most"


def test_a_holder_that_stands_still_stops_nobody(table: Table) -> None:
    holder = other(table, HOLD)
    assert heard(holder) == "0"
    os.kill(holder.pid, signal.SIGSTOP)
    for missed in (1, 2):
        table.lock()
        assert table.lock_missed == missed
        table.unlock()  # what it has not it cannot let go
    os.kill(holder.pid, signal.SIGCONT)
    holder.communicate("x")
    table.lock()
    assert table.lock_missed == 2
    waiter = other(table, HOLD)
    assert heard(waiter) == "1", "it is held again"
    table.unlock()
    waiter.communicate("x")


def test_a_holder_that_dies_leaves_it_free_as_often_as_it_happens(table: Table) -> None:
    for _ in range(3):
        holder = other(table, HOLD)
        assert heard(holder) == "0"
        holder.kill()
        holder.communicate()
        table.lock()
        table.unlock()
    assert table.lock_missed == 0
    last = other(table, HOLD)
    assert heard(last) == "0"
    last.communicate("x")
