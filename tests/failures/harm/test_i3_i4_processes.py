"""I3, I4: the processes beside production lose disk, memory or their turn; production goes on, bounded."""

import asyncio
import json
import os
import resource
import signal
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.test_experiment_switch import copied
from tests.gateway.test_reload_experiments import experiment, talk
from tests.gateway.whole import Whole, begin, serving, with_engines
from tests.support import FINISH, TOKEN, Engine, Peer, ask, post, streams
from tests.support_shared import hangs

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc and prlimit")

MIB = 1 << 20


def settings(engines: list[Engine], **more: Any) -> dict[str, Any]:
    """Everything is copied; no brake but the books."""
    brakes = {"memory_free": 0, "lane_share": 1, "arm_error_share": 1, "error_share": 1, "slowdown": None}
    fleets = [{"model": "m", "engines": [{"url": engines[0].url, "kind": "vllm"}]}]
    trial = experiment("trial", "m", engines[1], engines[2], brakes=brakes, **more)
    return {"fleets": fleets, "experiments": [trial]}


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def address_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


async def all_answered(whole: Whole, numbers: "count[int]", requests: int, size: int = 0) -> None:
    """So many requests, eight at a time, of at least `size` bytes each: all are answered whole."""

    async def some() -> None:
        for _ in range(requests // 8):
            body = talk(next(numbers)).replace(b"talk", b"talk " + b"x" * size)
            answer = await ask(whole.port, post(body), 60)
            assert answer.status == 200 and answer.is_whole

    await asyncio.gather(*(some() for _ in range(8)))


async def books(whole: Whole) -> dict[str, Any]:
    async with whole.http.get(whole.admin + "/api/experiments/trial") as answer:
        found: dict[str, Any] = json.loads(await answer.text()).get("books", {})
        return found


def test_i3_an_analysis_process_that_can_write_nothing_fails_no_request_and_says_so(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        await begin(stack, *engines)
        numbers = count()
        async with serving(tmp_path, settings(engines)) as whole:
            await copied(whole, engines[1], numbers)
            pid = whole.children()["_analysis"]
            size = (tmp_path / "state" / "trial" / "log.msgpack").stat().st_size
            resource.prlimit(
                pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY)
            )  # no file of its may grow
            await all_answered(whole, numbers, 80)
            async with asyncio.timeout(30):
                while not any("log" in what for what in (await whole.status())["troubles"]):
                    await asyncio.sleep(0.1)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await all_answered(whole, numbers, 40)
            assert whole.children()["_analysis"] == pid

    with_engines(test)


@pytest.mark.parametrize("victim", ["_shadow", "_analysis"])
def test_i3_a_process_at_its_memory_limit_fails_no_request(tmp_path: Path, victim: str) -> None:
    """What it may map is what it has, and bodies of 300 KB come: it may die, and is started again."""

    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        await begin(stack, *engines)
        numbers = count()
        async with serving(tmp_path, settings(engines)) as whole:
            await copied(whole, engines[1], numbers)
            pid = whole.children()[victim]
            most = address_bytes(pid) + MIB
            resource.prlimit(pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
            await all_answered(whole, numbers, 160, size=300_000)
            async with asyncio.timeout(60):
                while (now := whole.children().get(victim)) is None:
                    await asyncio.sleep(0.05)
            if now == pid:  # it lived through it: let it go on in peace
                try:
                    resource.prlimit(
                        pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                    )
                except ProcessLookupError:
                    pass  # not even so
            await copied(whole, engines[1], numbers)
            await all_answered(whole, numbers, 40)

    with_engines(test)


def test_i4_a_stopped_shadow_process_costs_a_worker_no_more_than_its_lane(tmp_path: Path) -> None:
    """120 MB of copies for nobody, with 8 MiB of lane."""

    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        await begin(stack, *engines)
        numbers = count()
        told = {**settings(engines), "mirror": {"lane_bytes": 8 * MIB, "copy_bytes": MIB}}
        async with serving(tmp_path, told) as whole:
            await copied(whole, engines[1], numbers)
            await all_answered(whole, numbers, 80, size=300_000)  # what a worker holds anyway
            worker, shadow = whole.children()["_worker"], whole.children()["_shadow"]
            before = rss_bytes(worker)
            os.kill(shadow, signal.SIGSTOP)
            try:
                most = 0
                for _ in range(3):
                    await all_answered(whole, numbers, 136, size=300_000)
                    engines[0].asked.clear()
                    most = max(most, rss_bytes(worker))
            finally:
                os.kill(shadow, signal.SIGCONT)
            assert most - before < (8 + 40) * MIB
            async with asyncio.timeout(30):
                while 'reason="lane_full"' not in await exposed(whole):
                    await asyncio.sleep(0.2)

    with_engines(test)


async def exposed(whole: Whole) -> str:
    async with whole.http.get(whole.admin + "/metrics") as answer:
        return await answer.text()


def test_i4_ten_times_more_copies_than_arms_can_take_are_shed_bounded_and_counted(tmp_path: Path) -> None:
    """Arms with room for four answers that never end; forty copies a time, 100 KB each."""

    async def test(stack: AsyncExitStack) -> None:
        async def slow(peer: Peer) -> None:
            if peer.line.startswith("POST"):
                await hangs(peer)

        engines = [Engine(streams(TOKEN, FINISH)), Engine(slow), Engine(slow)]
        await begin(stack, *engines)
        numbers = count()
        async with serving(tmp_path, settings(engines, max_inflight=4)) as whole:
            await copied(whole, engines[1], numbers)
            await all_answered(whole, numbers, 80, size=100_000)
            shadow, worker = whole.children()["_shadow"], whole.children()["_worker"]
            before = rss_bytes(shadow), rss_bytes(worker)
            await all_answered(whole, numbers, 800, size=100_000)
            assert rss_bytes(shadow) - before[0] < 40 * MIB
            # A shadow that gets less of the CPU than requests do lets its lane fill: 64 MiB, unless set.
            assert rss_bytes(worker) - before[1] < (64 + 40) * MIB
            async with asyncio.timeout(30):
                while True:
                    found = await books(whole)
                    dropped = sum(found.get("dropped", {}).values())
                    if found.get("admitted", 0) >= 880:
                        break
                    await asyncio.sleep(0.2)
            assert found["admitted"] - found["paired"] - dropped <= 4
            assert found["dropped"]["overload"] >= 300  # beside those that calibration does not take
            assert len(engines[1].asked) <= 16

    with_engines(test)
