"""What the gateway's cost grows with: chunks and body bytes, and nothing that lies idle.

Each table varies one thing.  CPU is that of all the gateway's processes; what they take at rest (probes, the
reports of each second) is measured before and taken off, and shown.
"""

import argparse
import os
import resource
import socket
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from bench import figures, procfs
from bench.load import Load
from bench.proxies import Proxy, Shadowlane, key_of, known
from bench.stage import LOAD_CORE, Running, Stage, staged

REST_S = 2.0
SMALL = Load(seconds=1.0)


def cost_us(stage: Stage, gateway: Running, load: Load, rounds: int) -> tuple[float, float]:
    """CPU µs a request (the median of the rounds) and, at rest, CPU ms a second."""
    pids = gateway.pids
    stage.programs.run(gateway.port, replace(load, seconds=0.3))
    before_ns = procfs.cpu_ns(pids)
    time.sleep(REST_S)
    at_rest = (procfs.cpu_ns(pids) - before_ns) / 1e9 / REST_S
    found = []
    for _ in range(rounds):
        before_ns = procfs.cpu_ns(pids)
        answered = stage.programs.run(gateway.port, load)
        spent_s = (procfs.cpu_ns(pids) - before_ns) / 1e9 - at_rest * answered.seconds
        found.append(spent_s / answered.answers * 1e6)
    return statistics.median(found), at_rest * 1e3


def of_traffic(stage: Stage, what: str, loads: dict[int, Load], rounds: int) -> str:
    """One gateway, requests of several sizes; the last column would be flat if cost were linear."""
    gateway = stage.start(Shadowlane().proxy(), stage.engines(2))
    rows, first = [], None
    for size, load in loads.items():
        us, _ = cost_us(stage, gateway, load, rounds)
        first = first or (size, us)
        slope = f"{(us - first[1]) / (size - first[0]) * 1000:.1f}" if size != first[0] else "-"
        rows.append([str(size), f"{us:.1f}", slope])
    stage.stop(gateway)
    return figures.table([what, "CPU µs a request", "µs per 1000 more than the first"], rows)


def of_idle(stage: Stage, what: str, sizes: Sequence[int], setting: "Setting", rounds: int) -> str:
    """A gateway for each size, the same small requests; the second column is to be flat."""
    rows = []
    for size in sizes:
        with ExitStack() as held:
            gateway = stage.start(*setting(stage, size))
            held.callback(stage.stop, gateway)
            for _ in range(size if setting is idle_connections else 0):
                held.enter_context(socket.create_connection(("127.0.0.1", gateway.port)))
            us, at_rest_ms = cost_us(stage, gateway, replace(SMALL, key=key_of(size // 2)), rounds)
        rows.append([str(size), f"{us:.1f}", f"{at_rest_ms:.1f}"])
    return figures.table([what, "CPU µs a request", "CPU ms a second at rest"], rows)


Setting = Callable[[Stage, int], tuple[Proxy, list[int]]]


def engines(stage: Stage, count: int) -> tuple[Proxy, list[int]]:
    return Shadowlane().proxy(), stage.engines(count)


def api_keys(stage: Stage, count: int) -> tuple[Proxy, list[int]]:
    return Shadowlane(keys=count).proxy(), stage.engines(2)


def idle_connections(stage: Stage, _count: int) -> tuple[Proxy, list[int]]:
    return Shadowlane().proxy(), stage.engines(2)


CHUNKS = {n: Load(50, 8.0, 50, events=n) for n in (25, 50, 100, 200, 400)}
BODIES = {n: replace(SMALL, body=n) for n in (512, 2048, 8192, 32_768, 131_072, 524_288)}
IDLE: dict[str, tuple[Sequence[int], Setting]] = {
    "engines": ((2, 8, 32, 128, 256), engines),
    "API keys": ((0, 10, 1000, 10_000), api_keys),
    "idle connections": ((0, 500, 2000, 5000), idle_connections),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds: int = parser.parse_args().rounds
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with staged() as stage:
        os.sched_setaffinity(0, {LOAD_CORE})
        print(of_traffic(stage, "chunks of an answer", CHUNKS, rounds), end="\n\n", flush=True)
        print(of_traffic(stage, "body bytes", BODIES, rounds), end="\n\n", flush=True)
        for what, (sizes, setting) in IDLE.items():
            if setting is api_keys and "keys" not in known(Shadowlane().tree, Shadowlane().python):
                print("skipped: API keys (this version has none)\n")
                continue
            print(of_idle(stage, what, sizes, setting, rounds), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
