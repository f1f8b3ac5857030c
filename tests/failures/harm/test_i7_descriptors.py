"""I7: bad arms take only the shadow process's descriptors, a bounded number of them, and give them back."""

import asyncio
import os
import resource
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.failures.harm.test_i3_i4_processes import all_answered, books, settings
from tests.gateway.test_experiment_switch import asked, copied
from tests.gateway.whole import Whole, begin, serving, with_engines
from tests.procfs import open_files
from tests.support import FINISH, SSE_HEAD, TOKEN, Engine, Peer, event, streams
from tests.support_shared import hangs

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc and prlimit")

INFLIGHT = 16
CLIENTS = 8  # of `all_answered`


async def never_answers(peer: Peer) -> None:
    if peer.line.startswith("POST"):
        await hangs(peer)


async def resets(peer: Peer) -> None:
    await peer.send(SSE_HEAD, event(TOKEN))
    peer.reset()


def sockets(pid: int) -> int:
    """Files are not counted: the worker's for metrics are opened when there is something to write."""
    return sum(target.startswith("socket:") for _, target in open_files(pid))


async def until(true: Callable[[], bool], what: Callable[[], object]) -> None:
    try:
        async with asyncio.timeout(60):
            while not true():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(what()) from None


async def at_rest(whole: Whole) -> dict[str, int]:
    """What each process holds once all is connected, nothing is asked, and idle connections were closed."""
    assert (await asked(whole, "/api/pause"))[0] == 200
    children = {name: whole.children()[name] for name in ("_worker", "_shadow")}
    before: dict[str, int] = {}
    quiet = 0
    while quiet < 12:
        now = {name: sockets(pid) for name, pid in children.items()}
        quiet = quiet + 1 if now == before else 0
        before = now
        await asyncio.sleep(0.5)
    assert (await asked(whole, "/api/resume"))[0] == 200
    return before


async def admitted(whole: Whole, copies: int) -> None:
    async with asyncio.timeout(60):
        while (await books(whole)).get("admitted", 0) < copies:
            await asyncio.sleep(0.1)


def test_i7_descriptors_are_bounded_whatever_arms_do_and_all_given_back(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        behaviour = streams(TOKEN, FINISH)

        async def bad(peer: Peer) -> None:
            await behaviour(peer)

        engines = [Engine(streams(TOKEN, FINISH)), Engine(bad), Engine(bad)]
        await begin(stack, *engines)
        numbers = count()
        async with serving(tmp_path, settings(engines, max_inflight=INFLIGHT)) as whole:
            async with asyncio.timeout(60):
                while (await books(whole)).get("admitted", 0) == 0:
                    await all_answered(whole, numbers, 8)
            base = await at_rest(whole)
            worker, shadow = whole.children()["_worker"], whole.children()["_shadow"]

            async def bounded_and_given_back(kind: str) -> None:
                before = (await books(whole)).get("admitted", 0)
                most = {"_worker": 0, "_shadow": 0}

                def look() -> None:
                    for name, pid in (("_worker", worker), ("_shadow", shadow)):
                        most[name] = max(most[name], sockets(pid))

                for _ in range(5):
                    await all_answered(whole, numbers, 40)
                    look()
                await admitted(whole, before + 200)
                look()
                # A client's connection, and an engine's for it; some of those before may not be closed yet.
                assert most["_worker"] <= base["_worker"] + 4 * CLIENTS, kind
                # Two arms; while calibrating, some conversations go to each of them twice.
                assert most["_shadow"] <= base["_shadow"] + 2 * 2 * INFLIGHT, kind
                assert (await asked(whole, "/api/pause"))[0] == 200
                for name, pid in (("_worker", worker), ("_shadow", shadow)):
                    await until(
                        lambda: sockets(pid) <= base[name],  # noqa: B023
                        lambda: (kind, name, base[name], sockets(pid)),  # noqa: B023
                    )
                assert (await asked(whole, "/api/resume"))[0] == 200
                assert (whole.children()["_worker"], whole.children()["_shadow"]) == (worker, shadow)

            for behaviour in (never_answers, resets):
                await bounded_and_given_back(behaviour.__name__)
            await engines[1].stop()
            await engines[2].stop()
            await bounded_and_given_back("refuses")

    with_engines(test)


def test_i7_a_shadow_process_that_has_no_descriptor_left_fails_no_request_and_goes_on(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        await begin(stack, *engines)
        numbers = count()
        async with serving(tmp_path, settings(engines)) as whole:
            await copied(whole, engines[2], numbers)
            shadow = whole.children()["_shadow"]
            before = resource.prlimit(shadow, resource.RLIMIT_NOFILE)
            resource.prlimit(
                shadow, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{shadow}/fd")) + 1, before[1])
            )
            await all_answered(whole, numbers, 160)
            resource.prlimit(shadow, resource.RLIMIT_NOFILE, before)
            assert whole.children()["_shadow"] == shadow
            await copied(whole, engines[2], numbers)

    with_engines(test)
