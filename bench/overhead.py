"""What a proxy costs: CPU µs per request and per streamed chunk, beside its peers in one interleaved run.

Every round takes every proxy in random order.  The proxies share one core, load and engine have another, and
what is counted is the scheduler's own time of all the proxy's threads: the other core's noise does not enter.
"""

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench import figures, procfs
from bench.load import Load
from bench.proxies import Proxy, Shadowlane, peers
from bench.stage import HANDED_OVER_S, LOAD_CORE, Running, Stage, staged

GAP_MS = 10.0
TESTS = {
    "request 0.5 KB": Load(),
    "request 32 KB": Load(body=32_768),
    # each event wakes the proxy, as those of few streams do
    "chunk alone": Load(connections=100, seconds=4.0, requests=100, events=200),
    # as an engine's steps send them
    "chunk of a step": Load(connections=100, seconds=4.0, requests=100, events=200, together=True),
}
# Copying everything is measured at a rate that the shadow process, which may share the load's core, keeps up
# with: at saturation it would take that core from the load, and requests would come less densely packed.
MIRROR_TESTS = {
    "request 0.5 KB": Load(rate=1000, seconds=2.0),
    "request 32 KB": Load(rate=500, seconds=2.0, body=32_768),
    "chunk alone": TESTS["chunk alone"],
    "chunk of a step": TESTS["chunk of a step"],
}
# (ours, theirs, test) -> at most this many times theirs
RATIOS = [
    ("shadowlane", theirs, test, bound)
    for theirs, bounds in {
        "nginx": (1.6, 2.0, 1.25, 1.25),
        "sglang-router": (0.2, 0.25, 0.7, 0.7),
        "vllm-router": (0.2, 0.25, 0.7, 0.7),
    }.items()
    for test, bound in zip(TESTS, bounds, strict=True)
]
# what copying every conversation may add to the worker, in µs
ADDED = {"request 0.5 KB": 12.0, "request 32 KB": 12.0, "chunk alone": 1.5, "chunk of a step": 1.5}

Found = dict[tuple[str, str], list[float]]
Counted = Callable[[Running], list[int]]


def whole(proxy: Running) -> list[int]:
    """All processes of a proxy."""
    return proxy.pids


def worker(proxy: Running) -> list[int]:
    """A gateway's worker alone: the shadow and analysis processes are there to work, and hold up nobody."""
    return [proxy.part("worker")]


def measured(
    stage: Stage, proxies: Sequence[Running], tests: Mapping[str, Load], rounds: int, counted: Counted = whole
) -> Found:
    """CPU µs per request or chunk: for each proxy and test one value a round."""
    found: Found = {}
    for _ in range(rounds):
        for test, load in tests.items():
            for proxy in random.sample(proxies, len(proxies)):
                stage.programs.run(proxy.port, _warm_up(load))
                pids = counted(proxy)
                before_ns = procfs.cpu_ns(pids)
                answered = stage.programs.run(proxy.port, load)
                time.sleep(HANDED_OVER_S)
                spent_us = (procfs.cpu_ns(pids) - before_ns) / 1e3
                found.setdefault((proxy.name, test), []).append(
                    spent_us / (answered.events or answered.answers)
                )
    return found


def _warm_up(load: Load) -> Load:
    return replace(load, seconds=0.3, events=min(load.events, 10))


def costs(found: Found, names: Sequence[str]) -> str:
    """The minimum, the median and the ratio to nginx, with its interval, of every row."""
    rows = []
    for name in names:
        cells = [name]
        for test in TESTS:
            values, beside = found[name, test], found.get(("nginx", test))
            cells += [
                f"{min(values):.1f}",
                f"{statistics.median(values):.1f}",
                str(figures.ratio(values, beside)) if beside else "-",
            ]
        rows.append(cells)
    heads = [cell for test in TESTS for cell in (f"{test}: min", "median", "/ nginx [95 %]")]
    return figures.table(["CPU µs", *heads], rows)


def bounds(found: Found, mirrored: Found) -> str:
    """What is promised, what was found, and whether it holds.  `mirrored` are the workers' costs."""
    rows = []
    for ours, theirs, test, bound in RATIOS:
        if (theirs, test) in found and (ours, test) in found:
            ratio = figures.ratio(found[ours, test], found[theirs, test])
            rows.append([f"{test} / {theirs}", f"{bound}", str(ratio), figures.verdict(ratio, bound)])
    for test, bound in ADDED.items():
        if mirrored:
            added = figures.difference(mirrored["mirrored", test], mirrored["shadowlane", test])
            row = [f"{test}, added by mirroring, µs", f"{bound}", str(added)]
            rows.append([*row, figures.verdict(added, bound)])
            least = min(mirrored["mirrored", test]) - min(mirrored["shadowlane", test])
            rows.append([f"{test}, the same between the least of all rounds", "", f"{least:.2f}", ""])
    return figures.table(["promised", "at most", "found [95 %]", ""], rows)


def handed_over(mirrored: Running) -> str:
    """How much of the mirrored row's traffic went into the lane."""
    copies, dropped = (mirrored.metric(f"shadowlane_{n}_total") for n in ("mirrored", "lane_dropped"))
    return f"mirrored: {copies:.0f} requests handed to the shadow process, {dropped:.0f} dropped before it"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", help="rows, by name, with commas between: nginx,shadowlane")
    parser.add_argument(
        "--also", action="append", default=[], metavar="NAME=DIRECTORY", help="a row for another checkout"
    )
    given = parser.parse_args()
    cores = os.sched_getaffinity(0)
    found, plain, missing = _beside_peers(given)
    os.sched_setaffinity(0, cores)
    mirrored, handed = _copying(given)
    print(costs(found, plain), bounds(found, mirrored), *missing, *handed, sep="\n")


def _wanted(given: argparse.Namespace, proxies: Sequence[Proxy]) -> list[Proxy]:
    names = given.only.split(",") if given.only else [proxy.name for proxy in proxies]
    return [proxy for proxy in proxies if proxy.name in names]


def _beside_peers(given: argparse.Namespace) -> tuple[Found, list[str], list[str]]:
    """What each proxy costs, their names, and a line about each that was not found."""
    found_peers, missing = peers()
    ours = [Shadowlane(), Shadowlane("least_load", policy="least_load")]
    for name, _, tree in (one.partition("=") for one in given.also):
        ours.append(Shadowlane(name, tree=Path(tree).resolve()))
    wanted = _wanted(given, [*found_peers, *(one.proxy() for one in ours)])
    with staged(awake=True) as stage:
        ports = stage.engines(2, GAP_MS)
        running = [stage.start(proxy, ports) for proxy in wanted]
        os.sched_setaffinity(0, {LOAD_CORE})
        return measured(stage, running, TESTS, given.rounds), [one.name for one in wanted], missing


def _copying(given: argparse.Namespace) -> tuple[Found, list[str]]:
    """What a gateway's worker costs with and without copying, and a line about what was copied.

    The shadow process may share the load's core: a load that never sleeps would leave it too little.  So the
    cores do not halt instead: at these rates to wake them costs more than a request.
    """
    with staged() as stage:
        stage.keep_from_halting()
        ports = stage.engines(4, GAP_MS)
        wanted = _wanted(given, [Shadowlane().proxy(), Shadowlane("mirrored", arms=ports[2:]).proxy()])
        if len(wanted) < 2:
            return {}, []
        running = [stage.start(proxy, ports[:2]) for proxy in wanted]
        os.sched_setaffinity(0, {LOAD_CORE})
        for one in running:
            one.part_company()
        found = measured(stage, running, MIRROR_TESTS, given.rounds, worker)
        return found, [handed_over(running[1])]


if __name__ == "__main__":
    main()
