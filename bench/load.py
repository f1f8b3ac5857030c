"""The benchmarks' engine and client: two small C programs, compiled when first needed, every answer checked.

In C because the peers are: a load that costs more than the proxy measures itself.
"""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent / "c"
QUANTILES = ("p50", "p90", "p99", "p99.9", "max")


@dataclass(frozen=True, slots=True)
class Load:
    """What the client does.  `rate` a second, 0: closed loop.  `events` above 0: streams of so many.

    It ends after `seconds`, or after `requests` where that is above 0, and waits `patience` seconds for what
    is then unanswered.  `together`: all streams' events come in the same instants, as from an engine's
    steps; else as evenly apart as can be.
    """

    connections: int = 32
    seconds: float = 1.5
    requests: int = 0
    body: int = 512
    events: int = 0
    rate: float = 0.0
    key: str = "sk"
    patience: float = 30.0
    together: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of it; durations by `QUANTILES`.

    `late`: events read 50 ms or more after they were sent.  `gap_us`: from one event
    of a stream to the next, as read.
    """

    answers: int
    unanswered: int
    events: int
    bad: int
    late: int
    seconds: float
    why: str
    latency_us: list[float]
    first_us: list[float]
    delay_us: list[float]
    gap_us: list[float]


class WrongAnswersError(Exception):
    """Answers were wrong, cut or missing: the figures of that run mean nothing."""


class Programs:
    """The two programs, compiled into a directory.

    `awake`: they never sleep, so that nobody has to wake them.  Waking a process is dear in a virtual
    machine, who writes to it pays, and one that is faster finds the others at work more often.
    """

    def __init__(self, directory: Path, *, awake: bool = False) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            raise SystemExit("the benchmarks need a C compiler (Debian: apt-get install gcc libc6-dev)")
        for name in ("engine", "client"):
            command = [compiler, "-O2", "-o", str(directory / name), str(SOURCES / f"{name}.c")]
            subprocess.run(command, check=True)
        self._directory = directory
        self._env = {**os.environ, "AWAKE": "1"} if awake else None

    def engine(self, ports: list[int], gap_ms: float) -> "subprocess.Popen[bytes]":
        """An engine that listens on all `ports` and streams an event every `gap_ms`."""
        argv = [str(self._directory / "engine"), str(int(gap_ms * 1000)), *map(str, ports)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=self._env)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    def begin(self, port: int, load: Load) -> "subprocess.Popen[bytes]":
        """A client that runs; its figures come with `result`."""
        given = [f"{name}={getattr(load, name)}" for name in load.__dataclass_fields__]
        argv = [str(self._directory / "client"), str(port), *given]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, env=self._env)

    def result(self, running: "subprocess.Popen[bytes]", *, strict: bool = True) -> Answered:
        """Wait for a client.  WrongAnswersError when something was wrong and `strict`."""
        out, _ = running.communicate()
        if running.returncode:
            raise WrongAnswersError(f"the client ended with status {running.returncode}")
        found = Answered(**json.loads(out))
        if strict and (found.bad or found.unanswered or not found.answers):
            raise WrongAnswersError(
                f"{found.bad} wrong and {found.unanswered} missing of {found.answers}: {found.why}"
            )
        return found

    def run(self, port: int, load: Load, *, strict: bool = True) -> Answered:
        """`begin` and `result`."""
        return self.result(self.begin(port, load), strict=strict)
