"""Text goes through the operator's own command before it is at rest; what does not come back never is."""

import asyncio
import os
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
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
_OURS: Final = Text({"messages": [{"role": "user", "content": "one"}]}, "two")
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
        self._why: str | None = None  # it does not answer, as was told
        self.lost: Counter[str] = Counter()

    def scrub(self, text: Text, done: Done) -> None:
        """Have `done` called with what may be written of `text`, in the order of calls."""
        line = _line(text)
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
                self._fails(_told(error))
                if self._waiting:
                    self._without(self._taken(), FAILED)
            await asyncio.sleep(_AGAIN_S)

    def close(self) -> None:
        """Nothing comes back any more: of what waits nothing is written."""
        while self._waiting:
            self._without(self._taken(), STOPPED)

    def _fails(self, why: str) -> None:
        """Tell why, once: it is tried every second."""
        if why != self._why:
            program = self._command[0]  # what follows may hold a key
            self._log.error("text is kept no more until redact_command answers", command=program, why=why)
        self._why = why

    async def _life(self) -> None:
        """One life of the command; raises how it ended."""
        async with _running(self._command, self._ends_s) as process:
            while True:
                while self._waiting:
                    clean = await _exchanged(process, self._waiting[0][0])
                    self._taken()(clean)
                    if self._why is not None:
                        self._log.info("redact_command answers again", command=self._command[0])
                        self._why = None
                self._fresh.clear()
                await self._fresh.wait()

    def _taken(self) -> Done:
        line, done = self._waiting.popleft()
        self._waiting_bytes -= len(line)
        return done

    def _without(self, done: Done, why: str) -> None:
        self.lost[why] += 1
        done(NONE)


async def trial(command: Sequence[str], *, ends_s: float = 5.0) -> str | None:
    """Why a command does not answer a text of ours as it has to; None where it does."""
    try:
        async with _running(command, ends_s) as process:
            await _exchanged(process, _line(_OURS))
    except _BROKEN as error:
        return _told(error)
    return None


def _line(text: Text) -> bytes:
    return msgspec.json.encode(text._asdict()) + b"\n"


async def _exchanged(process: asyncio.subprocess.Process, line: bytes) -> Text:
    """What the command answers to a text; raises one of `_BROKEN`."""
    assert process.stdin is not None and process.stdout is not None
    async with asyncio.timeout(_ANSWER_S):
        process.stdin.write(line)
        await process.stdin.drain()
        said = await process.stdout.readuntil(b"\n")
    clean = msgspec.json.decode(said, type=_Clean)
    return Text(clean.request, clean.answer)


@asynccontextmanager
async def _running(command: Sequence[str], ends_s: float) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command, until the block ends.  Raises OSError where it cannot be started."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,  # it may hold text
        start_new_session=True,
        limit=_LINE_BYTES,
    )
    assert process.stdout is not None
    try:
        yield process
    finally:
        _end(process)
        # What is suppressed would take the place of a cancellation.
        try:
            with suppress(TimeoutError, OSError):
                async with asyncio.timeout(ends_s):
                    while await process.stdout.read(_PIECE_BYTES):
                        pass  # a pipe with something left in it would stay open
        finally:
            process._transport.close()  # type: ignore[attr-defined]  # another may hold its pipe
        with suppress(TimeoutError):
            async with asyncio.timeout(ends_s):
                await process.wait()


def _told(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"it did not answer within {_ANSWER_S:g} s"
    if isinstance(error, asyncio.IncompleteReadError | ConnectionError):
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
