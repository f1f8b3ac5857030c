"""Discovery under a whole gateway: engines come and leave without a cut; no empty answer empties a fleet."""

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.gateway.discovery.api_server import ApiServer, api_server, endpoint
from tests.gateway.whole import Whole, begin, put, serving, with_engines
from tests.support import (
    FINISH,
    LAST,
    SSE_HEAD,
    TOKEN,
    Answered,
    Engine,
    Peer,
    ask,
    event,
    post,
    streams,
    until,
)


async def served_by(
    whole: Whole, engine: Engine, waiting: list[asyncio.Task[Answered]] | None = None
) -> None:
    """Ask until this engine has had a request; no answer may be less than whole.

    `waiting` takes the asked instead: another engine, which a worker still has, may let them wait.
    """
    seen, loop, asked = len(engine.asked), asyncio.get_running_loop(), []
    async with asyncio.timeout(60):
        while len(engine.asked) == seen:
            asked.append(loop.create_task(ask(whole.port, post(), 60)))
            await asyncio.wait(asked[-1:], timeout=0.2)
            await asyncio.sleep(0.05)
    if waiting is not None:
        waiting += asked
        return
    for answer in await asyncio.gather(*asked):
        assert answer.status == 200 and answer.is_whole, answer.raw


async def told(whole: Whole, **expected: Any) -> None:
    """Wait until the admin server says this of the source."""
    async with asyncio.timeout(20):
        while True:
            found = (await whole.status())["discovery"].get("m", {})
            if all(found.get(name) == value for name, value in expected.items()):
                return
            await asyncio.sleep(0.1)


def test_a_listed_file_is_followed_and_an_empty_or_broken_one_keeps_the_fleet_at_work(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        one, two, arm, control = engines = [Engine(streams(TOKEN, FINISH)) for _ in range(4)]
        await begin(stack, *engines)
        file = tmp_path / "engines.json"
        put(file, json.dumps([one.url]))
        settings: dict[str, Any] = {
            "workers": 2,
            "fleets": [
                {
                    "model": "m",
                    "discover": {"file": str(file), "kind": "vllm", "api_key": "sk-1"},
                    "policy": {"name": "round_robin"},
                }
            ],
            "experiments": [
                {
                    "name": "t",
                    "sample": {"rate": 0.001},
                    "control": {"engine": control.url},
                    "candidates": [{"name": "c", "engine": arm.url}],
                }
            ],
        }
        async with serving(tmp_path, settings) as whole:
            await told(whole, engines=1, error=None)
            async with asyncio.timeout(20):
                while (await ask(whole.port, post())).status != 200:  # it is heard, and used
                    await asyncio.sleep(0.05)
            assert {name.lower(): value for name, value in one.asked[-1].headers}[
                "authorization"
            ] == "Bearer sk-1"
            put(file, json.dumps([one.url, two.url]))
            await served_by(whole, two)
            for text in ("[]", "[", "{}"):
                put(file, text)
                async with asyncio.timeout(20):
                    while not (await whole.status())["discovery"]["m"]["error"]:
                        await asyncio.sleep(0.1)
                await served_by(whole, one)
                await served_by(whole, two)
                assert await whole.metric('shadowlane_discovery_failing{fleet="m"}') == 1
                put(file, json.dumps([one.url, two.url]))
                await told(whole, engines=2, error=None)
            put(file, json.dumps([two.url, arm.url]))  # who gets copies gets no production
            async with asyncio.timeout(20):
                while "copies are sent there" not in whole.log:
                    await asyncio.sleep(0.1)
            await served_by(whole, two)
            before = len(one.asked)
            for _ in range(10):
                await served_by(whole, two)
            assert len(one.asked) <= before + 2
            assert not [peer for peer in arm.asked if peer.line.startswith("POST")]
            lost = whole.children()["_discovery"]
            os.kill(lost, signal.SIGKILL)
            put(file, json.dumps([one.url]))
            await served_by(whole, one)
            assert whole.children()["_discovery"] != lost

    with_engines(test)


def test_pods_come_and_go_under_running_streams(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        go_on = asyncio.Event()
        stack.callback(go_on.set)

        async def slow(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN))
            await go_on.wait()
            await peer.send(event(FINISH), event("[DONE]"), LAST)

        old, new = Engine(slow), Engine(streams(TOKEN, FINISH))
        await begin(stack, old, new)
        server = ApiServer()

        def pod(name: str, engine: Engine) -> None:
            # each engine of this test has a port of its own, and so a slice
            server.put(name, endpoint("127.0.0.1", f"pod-{name}"), port=engine.port)

        pod("a", old)
        async with api_server(tmp_path, server):
            source = {
                "service": "vllm",
                "api": server.url,
                "token_file": str(tmp_path / "token"),
                "ca_file": str(tmp_path / "ca.crt"),
            }
            fleet = {"model": "m", "discover": {"kubernetes": source, "kind": "vllm"}}
            async with serving(tmp_path, {"fleets": [fleet]}) as whole:
                await told(whole, engines=1, error=None, source="kubernetes vllm")
                async with asyncio.timeout(20):  # ready is said where an engine was heard
                    while (await whole.http.get(whole.admin + "/readyz")).status != 200:
                        await asyncio.sleep(0.05)
                loop = asyncio.get_running_loop()
                running = [loop.create_task(ask(whole.port, post(), 60)) for _ in range(10)]
                await until(lambda: len(old.asked) == 10)
                server.remove("a")
                await told(whole, error="the answer names no engine", engines=1)  # and the fleet goes on
                pod("b", new)
                await told(whole, engines=1, error=None)
                await served_by(whole, new, running)
                before = len(old.asked)
                for _ in range(5):  # the only worker knows it now
                    assert (await ask(whole.port, post())).is_whole
                assert len(old.asked) == before
                go_on.set()
                assert all(answer.is_whole for answer in await asyncio.gather(*running))

    with_engines(test)
