"""A launched engine's process as the launching process has it: started through a keeper, heard, ended."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gateway.launch import keeper

LINES = 40
_LINE_BYTES = 500
_KEEPER_S = 15.0  # what a keeper takes beyond an engine's own time: it gives up on what outlives SIGKILL, too


class CannotStart(Exception):
    """The command cannot be run; the text says why."""


class Tail:
    """The last lines of what an engine writes, in memory only: they may hold what clients ask."""

    def __init__(self, lines: int = LINES) -> None:
        self._lines: deque[str] = deque(maxlen=lines)
        self._open = b""

    def feed(self, data: bytes) -> None:
        """Some bytes of its output came."""
        *whole, self._open = (self._open + data).split(b"\n")
        for line in whole:
            self._keep(line)
        if len(self._open) > _LINE_BYTES:
            self._keep(self._open)
            self._open = b""

    @property
    def lines(self) -> tuple[str, ...]:
        """The last of them, the unfinished one too."""
        last = _shown(self._open)
        return (*self._lines, last) if last else tuple(self._lines)

    def _keep(self, line: bytes) -> None:
        if shown := _shown(line):
            self._lines.append(shown)


class Kept:
    """One run of an engine.  `over` is set when nothing of it is left, `why` then says how it ended."""

    def __init__(self) -> None:
        self.tail = Tail()
        self.over = asyncio.Event()
        self._known = asyncio.Event()  # whether it could be started
        self.pid: int | None = None
        self.why = "it was ended"
        self._status = b""
        self._clean = False
        self._keeper: subprocess.Popen[bytes] | None = None
        self._life: int | None = None
        self._transports: list[asyncio.BaseTransport] = []

    async def start(
        self, argv: Sequence[str], env: Mapping[str, str], folder: str | None, stop_s: float
    ) -> None:
        """Run the command.  Raises CannotStart."""
        loop = asyncio.get_running_loop()
        ours_read, theirs_write = os.pipe()
        output_read, output_write = os.pipe()
        life_read, self._life = os.pipe()
        words = (sys.executable, "-I", "-S", str(Path(keeper.__file__)), str(theirs_write), str(stop_s))
        try:
            self._keeper = subprocess.Popen(  # noqa: ASYNC220 - it forks, and waits for nothing
                (*words, *argv),
                stdin=life_read,
                stdout=output_write,
                stderr=output_write,
                env=dict(env),
                cwd=folder,
                pass_fds=(theirs_write,),
                start_new_session=True,  # what a terminal or a supervisor sends to a group is not for it
            )
        except (OSError, ValueError) as error:
            for fd in (ours_read, output_read, self._life):
                os.close(fd)
            self._life = None
            self.over.set()
            raise CannotStart(_why(error, folder)) from None
        finally:
            for fd in (theirs_write, output_write, life_read):
                os.close(fd)
        for fd, feed, ended in (
            (ours_read, self._told, self._ended),
            (output_read, self.tail.feed, _nothing),
        ):
            reader = _Reader(feed, ended)
            transport, _ = await loop.connect_read_pipe(lambda reader=reader: reader, os.fdopen(fd, "rb", 0))  # type: ignore[misc]
            self._transports.append(transport)
        await self._known.wait()
        if self.pid is None:
            raise CannotStart(self.why)

    def end(self) -> None:
        """Have it and all its children ended; `over` tells when they are."""
        if self._life is not None:
            os.close(self._life)
            self._life = None

    async def ended(self, stop_s: float) -> None:
        """End it, and wait until it is gone."""
        self.end()
        try:
            async with asyncio.timeout(stop_s + _KEEPER_S):
                await self.over.wait()
        except TimeoutError:
            self._kill()
        for transport in self._transports:
            transport.close()
        if self._keeper is not None:
            self._keeper.wait()

    def _told(self, data: bytes) -> None:
        *lines, self._status = (self._status + data).split(b"\n")
        for line in lines:
            word, _, rest = line.decode(errors="replace").partition(" ")
            if word == "started":
                self.pid = int(rest)
                self._known.set()
            elif word == "failed":
                self.why = f"it cannot be started: {rest}"
                self._clean = True
            elif word == "ended":
                self.why = cause(int(rest))
            elif word == "clean":
                self._clean = True

    def _ended(self) -> None:
        """The keeper is gone.  If it did not say that all is clean it was killed: then its engine is dead by
        now, and what that had started is ended here."""
        if not self._clean:
            self.why = "its keeper was killed"
            self._kill()
        self.end()
        self._known.set()
        self.over.set()

    def _kill(self) -> None:
        if self._keeper is not None and self._keeper.poll() is None:
            self._keeper.kill()
        if self.pid is not None:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass


class _Reader(asyncio.Protocol):
    def __init__(self, feed: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._feed = feed
        self._ended = ended

    def data_received(self, data: bytes) -> None:
        self._feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended()


def cause(status: int) -> str:
    """How a process ended, for a person."""
    if status >= 0:
        return f"it exited with status {status}"
    try:
        return f"it was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"it was killed by signal {-status}"


def _nothing() -> None:
    """Its output has ended."""


def _why(error: OSError | ValueError, folder: str | None) -> str:
    if isinstance(error, FileNotFoundError) and folder is not None and not os.path.isdir(folder):
        return f"it cannot be started: there is no folder {folder}"
    return f"it cannot be started: {getattr(error, 'strerror', None) or error}"


def _shown(line: bytes) -> str:
    text = line[:_LINE_BYTES].decode(errors="replace").rstrip()
    return "".join(char if char.isprintable() else " " for char in text)
