"""Low priority never runs; clients that left still take a turn; the queue is bounded by nothing.

The decisions have their own tests in `tests/admission/`; here the whole program is asked.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.failures.processes import Whole, engine_that, serving
from tests.failures.support import at_once
from tests.support import FINISH, LAST, SSE_HEAD, TOKEN, Engine, Peer, ask, event, post, until
from tests.support_shared import run


class OneAtATime:
    """An engine whose answers wait for a turn that the test gives."""

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore(0)
        self.most = self.running = 0
        self.order: list[str] = []

    async def script(self, peer: Peer) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        self.order.append(json.loads(peer.body)["messages"][0]["content"])
        await peer.send(SSE_HEAD, event(TOKEN))
        await self.turns.acquire()
        self.running -= 1
        await peer.send(event(FINISH), LAST)


def config(folder: Path, engine: Engine, **admission: Any) -> str:
    path = folder / "config.json"
    fleets = [{"model": "m", "engines": [engine.url], "engine_concurrency": 1}]
    path.write_text(json.dumps({"fleets": fleets, "admission": admission, "limits": {"drain_s": 1}}))
    return str(path)


def request(who: str, *extra: str) -> bytes:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": who}]}
    return post(json.dumps(body).encode(), "/v1/chat/completions", *extra)


def asked(whole: Whole, who: str, *extra: str) -> "asyncio.Task[int]":
    async def one() -> int:
        return (await ask(whole.port, request(who, *extra), 60)).status

    return asyncio.get_running_loop().create_task(one())


async def until_waiting(whole: Whole, many: int) -> None:
    """Until so many requests wait for their turn."""
    async with asyncio.timeout(30):
        while True:
            told = [line for line in await whole.metrics() if line.startswith("shadowlane_waiting{")]
            if sum(float(line.rpartition(" ")[2]) for line in told) == many:
                return
            await asyncio.sleep(0.05)


def test_h34_queue_orphans_clients_that_leave_the_queue_never_reach_an_engine(tmp_path: Path) -> None:
    async def test() -> None:
        one = OneAtATime()
        async with (
            engine_that(one.script) as engine,
            serving(tmp_path, "--config", config(tmp_path, engine)) as whole,
        ):
            first = asked(whole, "first")
            await until(lambda: one.order == ["first"])
            writers = []
            try:
                for n in range(5):
                    _, writer = await asyncio.open_connection("127.0.0.1", whole.port)
                    writers.append(writer)
                    writer.write(request(f"leaves {n}"))
                last = asked(whole, "last")
                await until_waiting(whole, 6)
                assert one.order == ["first"]
            finally:
                for writer in writers:
                    writer.close()
            await until_waiting(whole, 1)
            one.turns.release()
            one.turns.release()
            assert [await first, await last] == [200, 200]
            assert one.order == ["first", "last"] and one.most == 1

    run(test())


def test_h34_queue_orphans_one_of_low_priority_runs_under_a_steady_load_of_others(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        one = OneAtATime()
        async with (
            engine_that(one.script) as engine,
            serving(tmp_path, "--config", config(tmp_path, engine)) as whole,
        ):
            done = asyncio.Event()

            async def again_and_again(n: int) -> None:
                while not done.is_set():
                    assert (await ask(whole.port, request(f"normal {n}"), 60)).status == 200

            loads = [asyncio.get_running_loop().create_task(again_and_again(n)) for n in range(10)]
            await until_waiting(whole, 9)
            low = asked(whole, "low", "x-shadowlane-priority: low")
            try:
                async with asyncio.timeout(30):
                    while not low.done():
                        one.turns.release()
                        await asyncio.sleep(0.01)
                assert low.result() == 200
                assert one.most == 1
                assert one.order.index("low") > 1  # not at once either
            finally:
                done.set()
                for _ in range(100):
                    one.turns.release()
                await asyncio.gather(*loads)

    run(test())


def test_h34_queue_orphans_a_full_queue_and_a_long_wait_are_told_at_once_and_in_words(tmp_path: Path) -> None:
    async def test() -> None:
        one = OneAtATime()
        limits = {"queue_entries": 3, "queue_wait_s": 5}
        async with (
            engine_that(one.script) as engine,
            serving(tmp_path, "--config", config(tmp_path, engine, **limits)) as whole,
        ):
            first = asked(whole, "first")
            await until(lambda: one.order == ["first"])
            waiting = [asked(whole, f"waits {n}") for n in range(3)]
            await until_waiting(whole, 3)
            for got in await at_once(ask(whole.port, request(f"too many {n}")) for n in range(5)):
                assert got.status == 503 and int(got.header("retry-after")[0]) >= 1
                assert "its queue of 3 requests is full" in json.loads(got.text)["error"]["message"]
            assert not any(task.done() for task in waiting)
            assert {await task for task in waiting} == {503}  # waited for long enough
            one.turns.release()
            assert await first == 200
            one.turns.release()
            assert await asked(whole, "after") == 200  # nothing of them is left in the way
            assert one.order == ["first", "after"]

    run(test())
