"""The whole program as it is run: a supervisor and its children, asked over sockets, ended by a signal."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.procfs import children
from tests.support import Answered, Engine, Script, ask

ROOT = Path(__file__).resolve().parents[2]


def get(path: str, *extra: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *extra]
    return "\r\n".join([*lines, "", ""]).encode()


@dataclass
class Whole:
    """A running `shadowlane serve`."""

    port: int
    admin: int
    process: asyncio.subprocess.Process

    def child(self, what: str) -> int | None:
        """The pid of a child process, by its hidden subcommand."""
        return next((pid for pid, words in children(self.process.pid) if what in words), None)

    async def metrics(self) -> list[str]:
        """The series, without comments."""
        got = await ask(self.admin, get("/metrics"))
        assert got.status == 200
        return [line for line in got.text.decode().splitlines() if line and not line.startswith("#")]

    async def ready(self) -> Answered:
        return await ask(self.admin, get("/readyz"))


@asynccontextmanager
async def engine_that(script: Script) -> AsyncIterator[Engine]:
    """A scripted engine, running."""
    engine = Engine(script)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


@asynccontextmanager
async def serving(
    folder: Path, *argv: str, env: Mapping[str, str] | None = None, nofile: int | None = None
) -> AsyncIterator[Whole]:
    """Run it with these flags until the block ends; it must end cleanly, unless the block ended it."""
    command = [sys.executable, "-P", "-m", "gateway.cli", "serve", "--listen", "127.0.0.1:0"]
    command += ["--admin", "127.0.0.1:0", "--state-dir", str(folder / "state"), *argv]
    if nofile is not None:
        command = ["/bin/sh", "-c", f'ulimit -n {nofile} && exec "$0" "$@"', *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    with (folder / "err").open("ab") as err:
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=subprocess.PIPE, stderr=err
        )
    try:
        assert process.stdout is not None
        ports: dict[str, int] = {}
        while not {"listening", "admin"} <= ports.keys():
            line = (await asyncio.wait_for(process.stdout.readline(), 30)).decode()
            assert line, (folder / "err").read_text()
            for word in ("listening", "admin"):
                if word in line and "http" in line:
                    ports[word] = int(line.split("http", 1)[1].split()[0].rstrip("/").rsplit(":", 1)[1])
        whole = Whole(ports["listening"], ports["admin"], process)
        async with asyncio.timeout(30):
            while (await whole.ready()).status != 200:
                await asyncio.sleep(0.05)
        yield whole
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            status = await asyncio.wait_for(process.wait(), 60)
        except TimeoutError:
            process.kill()
            raise
        assert status == 0, (folder / "err").read_text()[-3000:]
