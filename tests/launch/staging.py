"""A gateway whose arms are emulated engines that it starts itself, and what it says of them."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gateway.whole import Whole
from tests.support import Engine, ask, post

EMULATOR = f"{sys.executable} -m emulator --model m --port {{port}}"
PATIENCE_S = 60.0


def arm(command: str | list[str] = EMULATOR, **launch: Any) -> dict[str, Any]:
    """An arm without a GPU, and with little patience."""
    return {"gpus": 0, "launch": {"command": command, "warm_up": 1, "stop_s": 5, **launch}}


def experiment(control: dict[str, Any], *candidates: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An experiment that is offered all conversations; candidates are called c0, c1, ..."""
    named = [{"name": f"c{n}", **one} for n, one in enumerate(candidates)]
    return {"name": "t", "sample": {"rate": 1.0}, "control": control, "candidates": named, **more}


def settings(production: Engine, *experiments: dict[str, Any], **fleet: Any) -> dict[str, Any]:
    fleets = [{"model": "m", "engines": [{"url": production.url, "kind": "vllm"}], **fleet}]
    return {"fleets": fleets, "experiments": list(experiments)}


def talk(n: int) -> bytes:
    message = {"role": "user", "content": f"talk {n}"}
    return json.dumps({"model": "m", "max_tokens": 4, "messages": [message]}).encode()


async def launched(whole: Whole, name: str = "t") -> dict[str, dict[str, Any]]:
    """What is told of an experiment's engines, by arm."""
    told = (await whole.status())["launched"].get("engines", ())
    return {one["arm"]: one for one in told if one["experiment"] == name}


async def until(whole: Whole, holds: Callable[[dict[str, dict[str, Any]]], Any]) -> dict[str, dict[str, Any]]:
    """Wait until it holds of the engines; AssertionError with what is told when it never does."""
    seen: dict[str, dict[str, Any]] = {}
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not seen or not holds(seen):
                await asyncio.sleep(0.1)
                seen = await launched(whole)
    except TimeoutError:
        raise AssertionError(f"{json.dumps(seen, indent=1)}\n{whole.log}") from None
    return seen


def are(**states: str) -> Callable[[dict[str, dict[str, Any]]], bool]:
    """Whether these arms, and no others, are in these states."""
    return lambda seen: {name: one["state"] for name, one in seen.items()} == states


async def books(whole: Whole, name: str = "t") -> dict[str, Any]:
    async with whole.http.get(f"{whole.admin}/api/experiments/{name}") as answer:
        found: dict[str, Any] = (await answer.json(content_type=None)).get("books", {})
        return found


async def ask_until(whole: Whole, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Ask new things until it holds of the books."""
    seen: dict[str, Any] = {}
    try:
        async with asyncio.timeout(PATIENCE_S):
            for n in range(1_000_000):
                got = await ask(whole.port, post(talk(n)))
                assert got.status == 200
                seen = await books(whole)
                if holds(seen):
                    return seen
                await asyncio.sleep(0.1)
    except TimeoutError:
        pass
    raise AssertionError(f"{seen}\n{whole.log}")


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return False


async def gone(*pids: int) -> None:
    """Wait until none of these is left."""
    async with asyncio.timeout(PATIENCE_S):
        while any(map(lives, pids)):
            await asyncio.sleep(0.05)
