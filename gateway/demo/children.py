"""How are the demo's engines and gateway started, watched and ended?  As child processes, by pid.

A child's stderr goes to a file, so that a failure can be told in the child's own last words.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gateway

_ROOT = Path(gateway.__file__).parent.parent
_GRACE_S = 4.0


class ChildError(RuntimeError):
    """A child process did not start or did not stay; the text says which and ends with its last words."""


class Children:
    """The child processes of one demo.  Their logs are written to `logs`, a folder that exists."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def engine(self, name: str, flags: Sequence[str], *, timeout_s: float) -> str:
        """Start an emulated engine on a free port; returns its URL as soon as it listens."""
        process = await self._start(name, ["emulator", "--port", "0", *flags], stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        try:
            line = await asyncio.wait_for(process.stdout.readline(), timeout_s)
            told: dict[str, Any] = json.loads(line)
            return str(told["url"])
        except (TimeoutError, ValueError, KeyError) as error:
            raise self.failure(name, f"did not say where it listens ({type(error).__name__})") from None

    async def gateway(self, config: Path) -> None:
        """Start `shadowlane serve -c config`.  It is not ready yet when this returns."""
        await self._start(
            "gateway", ["gateway.cli", "serve", "-c", str(config)], stdout=asyncio.subprocess.DEVNULL
        )

    def check(self) -> None:
        """ChildError when a child has ended that should still run."""
        for name, process in self._running.items():
            if process.returncode is not None:
                raise self.failure(name, f"ended with exit status {process.returncode}")

    async def end(self) -> None:
        """End every child: the gateway first, so that it drains against engines that still answer."""
        names = sorted(self._running, key=lambda name: name != "gateway")
        for group in (names[:1], names[1:]):
            await asyncio.gather(*(_end(self._running[name]) for name in group))
        self._running.clear()

    async def _start(self, name: str, module: Sequence[str], *, stdout: int) -> asyncio.subprocess.Process:
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        with (self._logs / f"{name}.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "gateway.demo.child", str(os.getpid()), *module,
                stdin=asyncio.subprocess.DEVNULL, stdout=stdout, stderr=log,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C reaches the demo alone, which ends them in order
            )  # fmt: skip
        self._running[name] = process
        return process

    def failure(self, name: str, what: str) -> ChildError:
        """The error that says `what` is wrong with child `name`, with its last words."""
        log = self._logs / f"{name}.log"
        last = log.read_text(errors="replace").splitlines()[-8:] if log.exists() else []
        return ChildError(
            "\n  ".join([f"{name} {what}" + (":" if last else ""), *(line[:1000] for line in last)])
        )


async def _end(process: asyncio.subprocess.Process) -> None:
    _signal(process, signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _GRACE_S)
    except TimeoutError:
        _signal(process, signal.SIGKILL)
        await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    # Not process.terminate(): that polls the process first, and takes its exit status from asyncio's watcher.
    if process.returncode is None:
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            pass  # it has just ended
