"""Where the benchmarks play: engines and proxies started side by side, on two cores, ended at the end."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench import procfs
from bench.load import Programs
from bench.proxies import Proxy, admin_port, key_of

_ASK = b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}'
_HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {key_of(0)}"}
LOAD_CORE, PROXY_CORE = 0, 1
# A gateway writes what it keeps of answers to its shadow process this soon after their end; it is their cost.
HANDED_OVER_S = 0.5
_SPIN = """
import os
os.sched_setaffinity(0, {{{core}}})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while True:
    pass
"""
# Of a gateway's processes that serve nobody, where they are not to share the worker's.
BESIDE_CORE = 2 if (os.cpu_count() or 1) > 2 else LOAD_CORE


@dataclass(frozen=True, slots=True)
class Running:
    """A proxy that serves.  `process` is None for no proxy at all: the engine itself.

    `directory` holds its config, what it writes, and its `output`.
    """

    name: str
    port: int
    process: "subprocess.Popen[bytes] | None"
    directory: Path = Path()

    @property
    def pids(self) -> list[int]:
        """All its processes."""
        return [] if self.process is None else procfs.tree(self.process.pid)

    def part(self, name: str) -> int:
        """The process id of a gateway's worker, shadow, analysis or supervisor."""
        assert self.process is not None
        return procfs.parts(self.process.pid)[name]

    def part_company(self) -> None:
        """Move a gateway's processes that serve nobody off the worker's core.

        Where that is the load's they give way to it: in the field they take nothing from engines and clients.
        """
        others = set(self.pids) - {self.part("worker")}
        procfs.pin(others, BESIDE_CORE)
        if BESIDE_CORE == LOAD_CORE:
            procfs.yield_to_others(others)

    def metric(self, name: str) -> float:
        """The sum of a gateway's series of this name."""
        return sum(value for series, value in scrape(self.port).items() if series.partition("{")[0] == name)


class Stage:
    """Engines, and what stands in front of them.  Use `staged`."""

    def __init__(self, undo: ExitStack, directory: Path, *, awake: bool = False) -> None:
        self._undo = undo
        self._directory = directory
        self._awake = awake

    @property
    def directory(self) -> Path:
        """For what those on the stage write; gone with it."""
        return self._directory

    @cached_property
    def programs(self) -> Programs:
        """The engine and the client, compiled when first used."""
        return Programs(self._directory, awake=self._awake)

    def engines(self, count: int, gap_ms: float = 10.0) -> list[int]:
        """Start one engine that listens on `count` ports."""
        ports = free_ports(count)
        process = self.programs.engine(ports, gap_ms)
        self._undo.callback(_end, process)
        procfs.pin([process.pid], LOAD_CORE)
        return ports

    def keep_from_halting(self) -> None:
        """Give both cores work that gives way to everything else (SCHED_IDLE): what it costs to wake a halted
        core, and to share a core's parts with a busy neighbour, is then the same whatever else runs."""
        for core in (LOAD_CORE, PROXY_CORE):
            process = subprocess.Popen([sys.executable, "-c", _SPIN.format(core=core)])
            self._undo.callback(_end, process)

    def start(self, proxy: Proxy, engines: Sequence[int], *, pinned: bool = True) -> Running:
        """Start a proxy and wait until it answers a request."""
        directory = self._directory / re.sub(r"\W", "-", f"{proxy.name}-{time.monotonic_ns()}")
        directory.mkdir()
        port = free_ports(1)[0]
        env = {**os.environ, **proxy.env}
        with (directory / "output").open("wb") as output:
            process = subprocess.Popen(
                proxy.argv(directory, port, engines), env=env, stdout=output, stderr=output
            )
        self._undo.callback(_end, process)
        running = Running(proxy.name, port, process, directory)
        until(lambda: self._answers(running, directory / "output"), f"{proxy.name} to answer")
        if proxy.has_admin:
            until(lambda: _listens(admin_port(port)), f"{proxy.name}'s admin server")
        if pinned:
            time.sleep(0.5)  # children that are still being started would keep the supervisor's cores
            procfs.pin(running.pids, PROXY_CORE)
        return running

    def _answers(self, running: Running, output: Path) -> bool:
        assert running.process is not None
        if running.process.poll() is not None:
            said = output.read_text(errors="replace")[-800:]
            raise SystemExit(f"{running.name} ended with status {running.process.returncode}:\n{said}")
        if not _listens(running.port):
            return False
        link = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
        try:
            link.request("POST", "/v1/chat/completions", _ASK, _HEADERS)
            return link.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            link.close()

    def stop(self, running: Running) -> None:
        """End a proxy before the stage ends."""
        if running.process is not None:
            _end(running.process)


@contextmanager
def staged(*, awake: bool = False) -> Iterator[Stage]:
    """A stage.  Everything on it has ended when this ends.  `awake`: load and engine never sleep."""
    end_in_order()
    with ExitStack() as undo:
        directory = undo.enter_context(tempfile.TemporaryDirectory(prefix="sl-bench"))
        yield Stage(undo, Path(directory), awake=awake)


def end_in_order() -> None:
    """Make SIGTERM an exception: what was started is ended, as at Ctrl-C."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def free_ports(n: int) -> list[int]:
    """Ports of loopback that nobody listens on, each with a free next one.

    They lie below those that the kernel gives to clients, which else might take one before it is used.
    """
    ports: list[int] = []
    port = 10_000 + os.getpid() % 5000 * 4 if not _given else _given[-1] + 2
    while len(ports) < n:
        if all(_is_free(one) for one in (port, admin_port(port))):
            ports.append(port)
            _given.append(port)
        port += 2
    return ports


_given: list[int] = []


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def scrape(port: int) -> dict[str, float]:
    """Every series of the gateway that listens on `port`, by its name with labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{admin_port(port)}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in found}


def until(true: Callable[[], bool], what: str, patience_s: float = 60.0) -> None:
    """Wait until something becomes true."""
    end_s = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > end_s:
            raise SystemExit(f"waited {patience_s:.0f} s in vain for {what}")
        time.sleep(0.1)


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
