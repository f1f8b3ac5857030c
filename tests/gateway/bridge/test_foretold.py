"""A whole gateway before emulated engines: what it says is cached is what they say is cached."""

import asyncio
import json
import os
import re
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from emulator.params import EngineParams
from emulator.server import Running, start
from tests.gateway.whole import Whole, serving, with_engines
from tests.support import ask, post

MODEL = "emulated"
SYSTEM = "You answer questions about berths, tides and pilots in short sentences. " * 20
Metrics = dict[tuple[str, str], float]


async def engine(stack: AsyncExitStack, **more: Any) -> Running:
    params = EngineParams(model=MODEL, speed=50.0, hiccup_rate=0.0, kv_events_port=0, **more)
    running = await start(params)
    stack.push_async_callback(running.close)
    return running


def body(messages: list[dict[str, Any]]) -> bytes:
    fields = {"model": MODEL, "messages": messages, "max_tokens": 4, "stream": True}
    return json.dumps({**fields, "stream_options": {"include_usage": True}}).encode()


async def metrics(whole: Whole) -> Metrics:
    """Sums over engines and fleets: (name, value of its last label that says what) -> value."""
    async with whole.http.get(whole.admin + "/metrics") as answer:
        text = await answer.text()
    found: Metrics = {}
    for name, labels, value in re.findall(r"^shadowlane_(\w+?)(?:_total)?\{(.*)\} (\S+)$", text, re.M):
        said = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        key = (
            name,
            next((said[one] for one in ("bound", "what", "reason", "trust", "tier") if one in said), ""),
        )
        found[key] = found.get(key, 0.0) + float(value)
    return found


async def until(whole: Whole, true: Callable[[Metrics], bool]) -> Metrics:
    found: Metrics = {}
    for _ in range(300):
        found = await metrics(whole)
        if true(found):
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"not within half a minute; {found}\n{whole.log}")


async def settled(whole: Whole) -> None:
    """Wait until nothing more is being learned."""
    before = -1.0
    while before != (now := (await metrics(whole)).get(("learned_prompts", ""), 0.0)):
        before = now
        await asyncio.sleep(1.5)


async def talks(whole: Whole, workers: int, count: int = 4, turns: int = 3, name: str = "Talk") -> None:
    """Conversations side by side; each turn begins when all prompts of the one before were learned.

    With no `workers` it is not known how many will be.
    """
    said: list[list[dict[str, Any]]] = [[{"role": "system", "content": SYSTEM}] for _ in range(count)]
    before = (await metrics(whole)).get(("learned_prompts", ""), 0)
    for warm in range(300):  # an engine says how large its blocks are with the first that it stores
        await ask(whole.port, post(body([{"role": "user", "content": f"{name} {warm} " * 100}])))
        if (await metrics(whole)).get(("learned_prompts", ""), 0) > before:
            break
        await asyncio.sleep(0.1)
    await settled(whole)
    for turn in range(turns):
        before = (await metrics(whole))["learned_prompts", ""]
        for talk, messages in enumerate(said):
            messages.append(
                {"role": "user", "content": f"{name} {talk}, turn {turn}: " + f"why {talk}{turn}? " * 60}
            )
            answer = await ask(whole.port, post(body(messages)))
            assert answer.status == 200 and answer.is_whole
            messages.append({"role": "assistant", "content": f"Because of {talk}{turn}. " * 30})
        wanted = before + workers * count
        if not workers:
            await settled(whole)
        await until(whole, lambda found, wanted=wanted: found["learned_prompts", ""] >= wanted)  # type: ignore[misc]


def judged(found: Metrics) -> tuple[float, float]:
    """Answers foretold too high, and the share of cached tokens that was foretold."""
    high = sum(n for (name, bound), n in found.items() if name == "foretold_error" and not at_most_0(bound))
    return high, found["found_tokens", ""] / found["cached_tokens", ""]


def at_most_0(bound: str) -> bool:
    return bound.lstrip("-").isdigit() and int(bound) <= 0


def test_workers_know_what_engines_hold_of_prompts_that_another_worker_sent(tmp_path: Path) -> None:
    async def run(stack: AsyncExitStack) -> None:
        engines = [await engine(stack, seed=1), await engine(stack, seed=2)]
        fleet = {"model": MODEL, "engines": [one.url for one in engines]}
        async with serving(tmp_path, {"fleets": [fleet], "workers": 2}) as whole:
            await until(whole, lambda found: found.get(("kv_state", "EXACT"), 0) == 2)
            await talks(whole, workers=2)
            found = await metrics(whole)
            high, share = judged(found)
            assert high == 0 and share > 0.7
            assert found["foretold_error", "0"] > 0 and found["foretold_trusted", ""] == 1

    with_engines(run)


def test_copies_teach_where_engines_are_not_to_be_asked(tmp_path: Path) -> None:
    async def run(stack: AsyncExitStack) -> None:
        production, control, candidate = (
            await engine(stack),
            await engine(stack, seed=2),
            await engine(stack, seed=3),
        )
        settings = {
            "fleets": [{"model": MODEL, "engines": [production.url], "learn": {"tokenize": False}}],
            "experiments": [
                {
                    "name": "trial",
                    "sample": {"rate": 1.0},
                    "control": {"engine": control.url},
                    "candidates": [{"name": "tried", "engine": candidate.url}],
                }
            ],
        }
        async with serving(tmp_path, settings) as whole:
            await until(whole, lambda found: found.get(("kv_state", "EXACT"), 0) == 1)
            await talks(whole, workers=0, turns=2)
            found = await metrics(whole)
            high, share = judged(found)
            assert high == 0 and share > 0.2
            assert found["learning", "learned"] > 0  # half of the conversations, while it calibrates

    with_engines(run)


async def settled_links(whole: Whole) -> float:
    """How much is learned, once nothing more is."""
    links, before = 0.0, -1.0
    while links != before:
        await asyncio.sleep(1.0)
        links, before = (await metrics(whole))["learned_links", ""], links
    return links


def test_what_was_learned_outlives_the_process_that_learns(tmp_path: Path) -> None:
    async def run(stack: AsyncExitStack) -> None:
        one = await engine(stack)
        async with serving(tmp_path, {"fleets": [{"model": MODEL, "engines": [one.url]}]}) as whole:
            await until(whole, lambda found: found.get(("kv_state", "EXACT"), 0) == 1)
            await talks(whole, workers=1, count=2, turns=1)
            links = await settled_links(whole)  # killed amid a lesson it would begin again
            pid = whole.children()["_events"]
            os.kill(pid, signal.SIGKILL)
            while whole.children().get("_events", pid) == pid:
                assert (await ask(whole.port, post(body([{"role": "user", "content": "x"}])))).status == 200
                await asyncio.sleep(0.1)
            await talks(whole, workers=1, count=2, turns=1, name="Later talk")  # learned by the new process
            found = await metrics(whole)
            assert found["learned_links", ""] > links and judged(found)[0] == 0
            assert found.get(("learned_anew", ""), 0) == 0

    with_engines(run)


def test_a_fleet_that_is_not_to_learn_is_routed_as_ever(tmp_path: Path) -> None:
    async def run(stack: AsyncExitStack) -> None:
        one = await engine(stack)
        off = {"tokenize": False, "copies": False}
        fleets = [{"model": MODEL, "engines": [one.url], "learn": off}]
        async with serving(tmp_path, {"fleets": fleets}) as whole:
            await until(whole, lambda found: found.get(("kv_state", "EXACT"), 0) == 1)
            for _ in range(2):
                answer = await ask(whole.port, post(body([{"role": "user", "content": SYSTEM}])))
                assert answer.status == 200
            await until(whole, lambda found: found.get(("cached_tokens", ""), 0) > 0)
            assert not any(name.startswith("learn") for name, _ in await metrics(whole))
            whole.write(fleets=[{**fleets[0], "learn": {}}])
            assert (await whole.reload())[0] == 200
            await until(whole, lambda found: ("foretold_trusted", "") in found)

    with_engines(run)
