"""Text goes through the operator's own command before it is at rest; what does not come back never is."""

import asyncio
import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

WAITING: Final = "waiting"  # too much of it waits for the command
FAILED: Final = "failed"  # the command ended, was silent for too long, or answered something else
STOPPED: Final = "stopped"

_ANSWER_S: Final = 10.0
_AGAIN_S: Final = 1.0
_PIECE_BYTES: Final = 64 << 10
_MOST_TEXTS: Final = 1000
_MOST_BYTES: Final = 64 << 20
_LINE_BYTES: Final = 64 << 20

# What a command's line, or that it gives none, is known by.
_BROKEN: Final = (
    OSError,
    TimeoutError,
    ValueError,
    RecursionError,
    asyncio.IncompleteReadError,
    asyncio.LimitOverrunError,
)


class Text(NamedTuple):
    """A request, as its body's fields, and an answer; of either there may be none."""

    request: dict[str, Any] | None = None
    answer: str | None = None


NONE: Final = Text()
Done = Callable[[Text], None]


class _Clean(msgspec.Struct, forbid_unknown_fields=True):
    request: dict[str, Any] | None
    answer: str | None


class Scrubber:
    """Hands each text to a command, a JSON object {"request", "answer"} a line, and takes back one a line.

    `lost` counts texts that did not come back, by reason: `done` is then called with none.  A command that is
    killed has `ends_s` to end, and so has its pipe.
    """

    def __init__(self, command: Sequence[str], log: Any, *, ends_s: float = 5.0) -> None:
        self._command = command
        self._log = log
        self._ends_s = ends_s
        self._waiting: deque[tuple[bytes, Done]] = deque()
        self._waiting_bytes = 0
        self._fresh = asyncio.Event()
        self.lost: Counter[str] = Counter()

    def scrub(self, text: Text, done: Done) -> None:
        """Have `done` called with what may be written of `text`, in the order of calls."""
        line = msgspec.json.encode(text._asdict()) + b"\n"
        if len(self._waiting) >= _MOST_TEXTS or self._waiting_bytes + len(line) > _MOST_BYTES:
            self._without(done, WAITING)
            return
        self._waiting.append((line, done))
        self._waiting_bytes += len(line)
        self._fresh.set()

    async def run(self) -> None:
        """Keep the command running until cancelled."""
        while True:
            if not self._waiting:
                self._fresh.clear()  # one that failed is started again only for somebody
            await self._fresh.wait()
            try:
                await self._life()
            except _BROKEN as error:
                self._log.error("text is kept no more until the command answers", why=_told(error))
                if self._waiting:
                    self._without(self._taken(), FAILED)
            await asyncio.sleep(_AGAIN_S)

    def close(self) -> None:
        """Nothing comes back any more: of what waits nothing is written."""
        while self._waiting:
            self._without(self._taken(), STOPPED)

    async def _life(self) -> None:
        """One life of the command; raises how it ended."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # it may hold text
            start_new_session=True,
            limit=_LINE_BYTES,
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            while True:
                while self._waiting:
                    async with asyncio.timeout(_ANSWER_S):
                        process.stdin.write(self._waiting[0][0])
                        await process.stdin.drain()
                        said = await process.stdout.readuntil(b"\n")
                    clean = msgspec.json.decode(said, type=_Clean)
                    self._taken()(Text(clean.request, clean.answer))
                self._fresh.clear()
                await self._fresh.wait()
        finally:
            _end(process)
            # What is suppressed would take the place of a cancellation.
            try:
                with suppress(TimeoutError, OSError):
                    async with asyncio.timeout(self._ends_s):
                        while await process.stdout.read(_PIECE_BYTES):
                            pass  # a pipe with something left in it would stay open
            finally:
                process._transport.close()  # type: ignore[attr-defined]  # another may hold its pipe
            with suppress(TimeoutError):
                async with asyncio.timeout(self._ends_s):
                    await process.wait()

    def _taken(self) -> Done:
        line, done = self._waiting.popleft()
        self._waiting_bytes -= len(line)
        return done

    def _without(self, done: Done, why: str) -> None:
        self.lost[why] += 1
        done(NONE)


def _told(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"it did not answer within {_ANSWER_S:g} s"
    if isinstance(error, asyncio.IncompleteReadError):
        return "it ended"
    if isinstance(error, asyncio.LimitOverrunError):
        return f"its line has more than {_LINE_BYTES >> 20} MiB"
    if isinstance(error, msgspec.MsgspecError | UnicodeDecodeError | RecursionError):
        return "its line is no object with request and answer"  # and may hold text
    return str(error) or type(error).__name__


def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        try:
            os.killpg(process.pid, 9)
        except (ProcessLookupError, PermissionError):
            pass  # it has ended, or runs as another user
