"""What a worker that is killed had sent is no load to the others any more."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

from gateway.fleets.loads import LoadTable
from tests.gateway.whole import Whole, begin, serving, with_engines
from tests.procfs import children
from tests.support import Engine, ask, post
from tests.support_shared import hangs


def workers(whole: Whole) -> list[int]:
    return [pid for pid, words in children(whole.process.pid) if "_worker" in words]


def table(worker: int) -> LoadTable:
    """The table of loads that it maps."""
    maps = Path(f"/proc/{worker}/maps").read_text().splitlines()
    return LoadTable.open(Path(next(line.split()[-1] for line in maps if line.endswith("loads.bin"))))


def test_the_load_of_a_worker_that_is_killed_vanishes_and_that_of_the_other_stays(tmp_path: Path) -> None:
    async def run(stack: AsyncExitStack) -> None:
        engine = Engine(hangs)
        await begin(stack, engine)
        fleets = [{"model": "m", "engines": [engine.url]}]
        async with serving(tmp_path, {"fleets": fleets, "workers": 2, "limits": {"drain_s": 1}}) as whole:
            two = workers(whole)
            assert len(two) == 2
            loads = table(two[0])
            stack.callback(loads.close)
            loop = asyncio.get_running_loop()
            asking: list[asyncio.Task[object]] = []

            def each() -> list[int]:
                return [loads.row(worker).load(0)[0] for worker in range(2)]

            async with asyncio.timeout(60):
                while 0 in each():  # the kernel says which of them takes a connection
                    asking += [loop.create_task(ask(whole.port, post(), 120)) for _ in range(4)]
                    while sum(each()) < len(asking):
                        await asyncio.sleep(0.02)
            assert loads.totals(0)[0] == len(asking)
            os.kill(two[0], signal.SIGKILL)
            async with asyncio.timeout(30):
                while loads.totals(0)[0] == len(asking):
                    await asyncio.sleep(0.02)
            left = loads.totals(0)[0]
            assert left == sum(each()) > 0
            async with asyncio.timeout(30):  # those of the dead one are cut, the others still wait
                while sum(not task.done() for task in asking) != left:
                    await asyncio.sleep(0.02)
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    with_engines(run)
