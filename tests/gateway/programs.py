"""Programs run as processes of their own, and how a test waits for what they say."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 30.0  # a bound for a broken program, not an expectation


class Program:
    """A running program whose lines, of both streams, can be waited for."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._queue: Queue[str | None] = Queue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def line(self, wanted: str | Callable[[str], bool]) -> str:
        """The next line that holds `wanted`; AssertionError with all that was said when none comes."""
        while True:
            try:
                line = self._queue.get(timeout=PATIENCE_S)
            except Empty:
                line = None
            if line is None:
                raise AssertionError(f"no {wanted!r} in:\n" + "".join(self.lines))
            if wanted in line if isinstance(wanted, str) else wanted(line):
                return line

    def ended(self) -> int:
        """Its exit status, once it has ended."""
        status = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert not self._reader.is_alive(), "a process it started outlives it"
        return status

    @property
    def said(self) -> str:
        """All it has said so far."""
        return "".join(self.lines)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            self._queue.put(line)
        self.process.stdout.close()
        self._queue.put(None)


@contextmanager
def program(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Iterator[Program]:
    """Start `argv`; killed on leaving, if it still runs."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # unbuffered, each word of a line would be a write of its own, and lines of processes would mix
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "", **(env or {})},
    )
    running = Program(process)
    try:
        yield running
    finally:
        _end(process)
        running.ended()


def _end(process: subprocess.Popen[str]) -> None:
    """Ask, ask again (which a supervisor takes as "at once"), then kill."""
    for ask in (process.terminate, process.terminate, process.kill):
        if process.poll() is None:
            ask()
            try:
                process.wait(PATIENCE_S / 10)
            except subprocess.TimeoutExpired:
                continue


def shadowlane(*argv: str) -> list[str]:
    """The command line of `shadowlane` with `argv`."""
    return [sys.executable, "-P", "-m", "gateway.cli", *argv]
