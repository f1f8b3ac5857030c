"""How long after the kill switch is thrown does the last copy come?  By command, over HTTP, by reload.

    python -m bench.pausing

Traffic comes at a fixed rate and all of it is copied.  The arms are here, so that the instant at which each
copy comes is known.  Counted is from the moment before the command is started, or the request is sent, to the
last copy that comes after it; `acknowledged` is when it was said that everybody obeys.
"""

import argparse
import asyncio
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable

import yaml

from bench import figures
from bench.load import Load
from bench.mirrors import experiment
from bench.proxies import CONFIG, ROOT, Shadowlane, admin_port
from bench.stage import Running, staged

RATE = 200.0
_SETTLED_S = 1.0  # after which no copy is on its way any more
_ANSWER = b'{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}'
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(_ANSWER)


class Arm:
    """An engine that answers at once and knows when it was asked."""

    def __init__(self) -> None:
        self.came_ns: list[int] = []
        self.port = 0

    async def open(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                if head.startswith(b"post"):
                    self.came_ns.append(time.monotonic_ns())
                    length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                    await reader.readexactly(int(length))
                writer.write(_HEAD + _ANSWER)
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


class Switch:
    """The three ways to throw it, and how to let go."""

    def __init__(self, running: Running, engines: list[int], arms: list[int]) -> None:
        self._admin = f"http://127.0.0.1:{admin_port(running.port)}"
        self._file = running.directory / CONFIG
        self._settings = Shadowlane().config(running.directory, running.port, engines)
        self._experiment = experiment(arms)

    def post(self, path: str) -> None:
        request = urllib.request.Request(self._admin + path, method="POST", data=b"")
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()

    def write(self, *, paused: bool) -> None:
        one = {**self._experiment, "paused": paused}
        self._file.write_text(yaml.safe_dump({**self._settings, "experiments": [one]}))

    def by_command(self) -> None:
        command = [sys.executable, "-P", "-m", "gateway.cli", "experiment", "pause", "bench"]
        subprocess.run([*command, "--admin", self._admin], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)

    def over_http(self) -> None:
        self.post("/api/experiments/bench/pause")

    def by_reload(self) -> None:
        self.write(paused=True)
        self.post("/api/reload")

    def let_go(self) -> None:
        self.write(paused=False)
        self.post("/api/reload")
        self.post("/api/resume")


async def thrown(arms: list[Arm], switch: Switch, throw: Callable[[], None]) -> tuple[float, float, int]:
    """Throw it once: ms to the last copy, ms to the answer, copies after the answer."""
    await asyncio.to_thread(switch.let_go)
    for arm in arms:
        arm.came_ns.clear()
    async with asyncio.timeout(60):
        while any(len(arm.came_ns) < RATE / 4 for arm in arms):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    began_ns = time.monotonic_ns()
    await asyncio.to_thread(throw)
    answered_ns = time.monotonic_ns()
    await asyncio.sleep(_SETTLED_S)
    last_ns = max(began_ns, *(at_ns for arm in arms for at_ns in arm.came_ns))
    after = sum(at_ns > answered_ns for arm in arms for at_ns in arm.came_ns)
    return (last_ns - began_ns) / 1e6, (answered_ns - began_ns) / 1e6, after


async def measured(times: int) -> str:
    rows = []
    arms = [Arm(), Arm()]
    servers = [await arm.open() for arm in arms]
    with staged() as stage:
        engines = stage.engines(2)
        proxy = Shadowlane(arms=[arm.port for arm in arms]).proxy()
        running = await asyncio.to_thread(stage.start, proxy, engines, pinned=False)
        switch = Switch(running, engines, [arm.port for arm in arms])
        load = stage.programs.begin(running.port, Load(rate=RATE, seconds=3600.0))
        try:
            for name, throw in (
                ("shadowlane experiment pause", switch.by_command),
                ("POST /api/experiments/bench/pause", switch.over_http),
                ("paused: true, and a reload", switch.by_reload),
            ):
                found = [await thrown(arms, switch, throw) for _ in range(times)]
                last, answered = ([one[at] for one in found] for at in (0, 1))
                cells = [str(figures.median(last)), f"{max(last):.0f}", str(figures.median(answered))]
                rows.append([name, *cells, f"{max(answered):.0f}", str(sum(one[2] for one in found))])
        finally:
            load.kill()
            load.wait()
    for server in servers:
        server.close()
    heads = ["last copy, ms [95 %]", "most", "acknowledged, ms [95 %]", "most", "copies after it"]
    return figures.table([f"{times} times each", *heads], rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20)
    print(asyncio.run(measured(parser.parse_args().times)))


if __name__ == "__main__":
    main()
