"""The bell between workers, over real sockets: turns are heard at once, a lost ring costs one look."""

import asyncio
from pathlib import Path

from gateway.admission.bell import WorkerBell


class Polled:
    """Counts looks; `waiting` is what it answers."""

    def __init__(self) -> None:
        self.looks = 0
        self.waiting = 0
        self.looked = asyncio.Event()

    def __call__(self, at_ns: int) -> int:
        assert at_ns > 0
        self.looks += 1
        self.looked.set()
        return self.waiting


def bell(run_dir: Path, worker: int) -> tuple[WorkerBell, Polled]:
    polled = Polled()
    return WorkerBell(asyncio.get_running_loop(), run_dir, worker, polled), polled


def test_a_ring_makes_the_other_worker_look(tmp_path: Path) -> None:
    async def scene() -> None:
        ours, we = bell(tmp_path, 0)
        theirs, they = bell(tmp_path, 1)
        ours.ring(1)
        await asyncio.wait_for(they.looked.wait(), 30)
        assert (we.looks, they.looks) == (0, 1)
        ours.close()
        theirs.close()

    asyncio.run(scene())


def test_a_worker_that_is_started_again_hears_again(tmp_path: Path) -> None:
    async def scene() -> None:
        ours, _ = bell(tmp_path, 0)
        dead, _ = bell(tmp_path, 1)
        dead.close()
        ours.ring(1)
        ours.ring(2)
        assert ours.unheard == 2
        theirs, they = bell(tmp_path, 1)
        ours.ring(1)
        await asyncio.wait_for(they.looked.wait(), 30)
        ours.close()
        theirs.close()

    asyncio.run(scene())


def test_it_looks_while_something_waits_and_then_no_more(tmp_path: Path) -> None:
    async def scene() -> None:
        ours, polled = bell(tmp_path, 0)
        polled.waiting = 1
        ours.waits()
        ours.waits()
        while polled.looks < 3:
            polled.looked.clear()
            await asyncio.wait_for(polled.looked.wait(), 30)
        polled.waiting = 0
        polled.looked.clear()
        await asyncio.wait_for(polled.looked.wait(), 30)
        assert ours._timer is None
        ours.close()

    asyncio.run(scene())


def test_a_worker_that_does_not_listen_for_long_stops_nobody(tmp_path: Path) -> None:
    async def scene() -> None:
        ours, _ = bell(tmp_path, 0)
        theirs, _they = bell(tmp_path, 1)
        for _ in range(100_000):
            ours.ring(1)  # nothing is awaited: the other never reads
            if ours.unheard:
                break
        assert ours.unheard
        ours.close()
        theirs.close()

    asyncio.run(scene())
