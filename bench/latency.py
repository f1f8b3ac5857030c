"""What a proxy adds to a request's latency at a quarter of the gateway's saturation, beside nginx and none.

An open loop: requests are sent when they are due, whether or not earlier ones were answered, and a latency
counts from that instant.  All have the same rate, a quarter of what one worker of the gateway carries.  What
is added is the difference to no proxy at all in the same round.
"""

import argparse
import os
import random
from collections.abc import Mapping, Sequence

from bench import figures, procfs
from bench.load import QUANTILES, Load
from bench.proxies import Shadowlane, peers
from bench.stage import LOAD_CORE, Running, Stage, staged

SATURATING = Load(seconds=1.0)
SHOWN = ("p50", "p99")
P50_BOUND_US, P99_BOUND = 250.0, 1.5

Found = dict[tuple[str, str], list[float]]


def saturation(stage: Stage, proxy: Running) -> float:
    """Requests a second that it answers in a closed loop."""
    found = stage.programs.run(proxy.port, SATURATING)
    return found.answers / found.seconds


def measured(stage: Stage, proxies: Sequence[Running], rate: float, rounds: int, seconds: float) -> Found:
    """Latencies in µs of each proxy by quantile, one value a round."""
    found: Found = {}
    for _ in range(rounds):
        for proxy in random.sample(proxies, len(proxies)):
            stage.programs.run(proxy.port, Load(rate=rate, seconds=0.3))
            answered = stage.programs.run(proxy.port, Load(rate=rate, seconds=seconds))
            for name, value in zip(QUANTILES, answered.latency_us, strict=True):
                found.setdefault((proxy.name, name), []).append(value)
    return found


def added(found: Found, name: str, quantile: str) -> list[float]:
    """What the proxy adds to no proxy, round by round; at least the clock's step, so that a ratio exists."""
    pairs = zip(found[name, quantile], found["direct", quantile], strict=True)
    return [max(1.0, ours - bare) for ours, bare in pairs]


def report(found: Found, saturated: Mapping[str, float], rate: float) -> str:
    rows = []
    for name in dict.fromkeys(row for row, _ in found):
        cells = [name, f"{saturated[name]:.0f}"]
        for quantile in SHOWN:
            cells.append(str(figures.median(found[name, quantile])))
            cells.append("-" if name == "direct" else str(figures.median(added(found, name, quantile))))
        rows.append(cells)
    heads = [cell for quantile in SHOWN for cell in (f"{quantile} µs [95 %]", f"added {quantile}")]
    shown = figures.table([f"at {rate:.0f} requests a second", "saturated at", *heads], sorted(rows))
    p50 = figures.median(added(found, "shadowlane", "p50"))
    lines = [shown, f"added p50 at most {P50_BOUND_US:.0f} µs: {p50}: {figures.verdict(p50, P50_BOUND_US)}"]
    if ("nginx", "p99") in found:
        for what, ours, theirs in (
            ("p99", found["shadowlane", "p99"], found["nginx", "p99"]),
            ("added p99", added(found, "shadowlane", "p99"), added(found, "nginx", "p99")),
        ):
            p99 = figures.ratio(ours, theirs)
            lines.append(f"{what} at most {P99_BOUND} x nginx's: {p99}: {figures.verdict(p99, P99_BOUND)}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run")
    given = parser.parse_args()
    with staged() as stage:
        ports = stage.engines(2)
        found_peers, missing = peers()
        nginx = [stage.start(peer, ports) for peer in found_peers if peer.name == "nginx"]
        one = stage.start(Shadowlane().proxy(), ports)
        two = stage.start(Shadowlane("2 workers", workers=2).proxy(), ports, pinned=False)
        procfs.pin([two.part("supervisor"), two.part("analysis")], LOAD_CORE)  # the workers have both cores
        os.sched_setaffinity(0, {LOAD_CORE})
        proxies = [Running("direct", ports[0], None), *nginx, one, two]
        saturated = {proxy.name: saturation(stage, proxy) for proxy in proxies}
        rate = saturated[one.name] / 4
        print(report(measured(stage, proxies, rate, given.rounds, given.seconds), saturated, rate))
        print(*(line for line in missing if "nginx" in line), sep="\n")


if __name__ == "__main__":
    main()
