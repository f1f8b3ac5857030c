"""A whole gateway as it is run, from a config file, and how a test changes that file under it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from tests.procfs import children
from tests.support import Engine

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Whole:
    """A running `shadowlane serve -c`."""

    file: Path
    process: asyncio.subprocess.Process
    http: aiohttp.ClientSession
    settings: dict[str, Any]
    url: str = ""
    admin: str = ""
    errors: Path = field(default_factory=Path)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def log(self) -> str:
        """What it has written to standard error so far."""
        return self.errors.read_text()

    def write(self, **changed: Any) -> None:
        """Write the config file anew, whole."""
        self.settings = {**self.settings, **changed}
        put(self.file, json.dumps(self.settings))

    async def reload(self) -> tuple[int, dict[str, Any]]:
        """Have it read: the status and what was said."""
        async with self.http.post(self.admin + "/api/reload") as answer:
            return answer.status, json.loads(await answer.text())

    async def status(self) -> dict[str, Any]:
        async with self.http.get(self.admin + "/api/status") as answer:
            found: dict[str, Any] = json.loads(await answer.text())
            return found

    async def metric(self, name: str) -> float:
        async with self.http.get(self.admin + "/metrics") as answer:
            lines = (await answer.text()).splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))

    def children(self) -> dict[str, int]:
        """The processes it has, by their hidden subcommand (the last of several workers)."""
        return {
            word: pid for pid, words in children(self.process.pid) for word in words if word.startswith("_")
        }

    def kill(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self, timeout_s: float = 60) -> int:
        return await asyncio.wait_for(self.process.wait(), timeout_s)


def with_engines(test: Callable[[AsyncExitStack], Coroutine[Any, Any, None]]) -> None:
    """Run a test; engines it has begun are stopped, however it ends: a loop cannot be closed over them."""

    async def run() -> None:
        async with AsyncExitStack() as stack:
            await test(stack)

    uvloop.run(run())


async def begin(stack: AsyncExitStack, *engines: Engine) -> None:
    """Start engines that stop with the test."""
    for engine in engines:
        stack.push_async_callback(engine.stop)
        await engine.start()


def put(file: Path, text: str) -> None:
    """Replace a file whole, as a careful editor does."""
    half = file.with_name(f".{file.name}.half")
    half.write_text(text)
    half.rename(file)


@asynccontextmanager
async def serving(
    folder: Path, settings: Mapping[str, Any], env: Mapping[str, str] | None = None
) -> AsyncIterator[Whole]:
    """Run a gateway by these settings, ready, until the end; it must then end by itself."""
    file, errors = folder / "shadowlane.yaml", folder / "errors"
    defaults = {
        "listen": "127.0.0.1:0",
        "admin": "127.0.0.1:0",
        "state_dir": str(folder / "state"),
        "log": {"format": "json"},
    }
    with errors.open("wb") as stderr:
        put(file, json.dumps({**defaults, **settings}))
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-P", "-m", "gateway.cli", "serve", "-c", str(file)],
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    async with aiohttp.ClientSession() as http:
        whole = Whole(file, process, http, {**defaults, **settings}, errors=errors)
        try:
            await _said(whole)
            yield whole
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                assert await whole.ended() == 0, whole.log
            # After a kill its children hold the pipe for a moment more, and a loop cannot be closed over it.
            process._transport.close()  # type: ignore[attr-defined]  # nothing public closes the pipe's end


async def _said(whole: Whole) -> None:
    """Read where it listens, and wait until every worker reports."""
    assert whole.process.stdout is not None
    while not (whole.url and whole.admin):
        line = (await asyncio.wait_for(whole.process.stdout.readline(), 90)).decode()
        assert line, whole.log
        if "http://" in line and "listening" in line:
            whole.url = "http://" + line.split("http://", 1)[1].split()[0].rstrip("/")
        elif "http://" in line and "admin" in line:
            whole.admin = "http://" + line.split("http://", 1)[1].split()[0].rstrip("/")
    workers = whole.settings.get("workers", 1)
    async with asyncio.timeout(90):
        while True:
            reports = [p for p in (await whole.status())["processes"] if p["process"].startswith("worker")]
            if len(reports) == workers:
                return
            await asyncio.sleep(0.05)
