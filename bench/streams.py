"""Many streams at once in one worker: is any event lost or late, and what memory does a stream take?

Each stream has an event every 500 ms.  They begin evenly over five seconds: events have no common phase,
and all streams run at once for most of their time; 1,000 beginnings a second are four times what keeps 5,000
streams of 20 s up.  Every event has its number and the instant the engine sent it.  What the machine itself
delays is seen without a proxy, in the same run.
"""

import argparse
import os
import resource
import time

from bench import figures, procfs
from bench.load import QUANTILES, Answered, Load
from bench.proxies import Shadowlane, peers
from bench.stage import LOAD_CORE, Running, Stage, staged

GAP_MS = 500.0
BEGIN_S = 5.0
RSS_BOUND_KB = 25.0


def streamed(stage: Stage, proxy: Running, streams: int, events: int) -> tuple[Answered, float]:
    """All streams through one proxy; gives also what its worker's memory grew by, in KB, while all ran."""
    pids = [] if proxy.process is None else proxy.pids
    before_kb = sum(map(procfs.rss_kb, pids))
    load = Load(streams, BEGIN_S + 1, streams, 512, events, streams / BEGIN_S)
    client = stage.programs.begin(proxy.port, load)
    time.sleep((BEGIN_S + events * GAP_MS / 1e3) / 2)  # all have begun and none has ended
    grown_kb = sum(map(procfs.rss_kb, pids)) - before_kb
    return stage.programs.result(client, strict=False), grown_kb


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=20.0, help="that a stream takes")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    events = int(given.seconds * 1e3 / GAP_MS)
    needed = 2 * given.streams + 500  # the proxy's, both sides
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise SystemExit(f"{given.streams} streams need {needed} descriptors: raise `ulimit -n` from {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    with staged() as stage:
        ports = stage.engines(2, GAP_MS)
        peer = [peer for peer in peers()[0] if peer.name == "nginx"]
        gateway = Shadowlane(limits={"first_token_timeout_s": 60}).proxy()
        proxies = [Running("direct", ports[0], None), *(stage.start(one, ports) for one in [*peer, gateway])]
        os.sched_setaffinity(0, {LOAD_CORE})
        rows = []
        for _ in range(given.rounds):
            for proxy in proxies:
                found, grown_kb = streamed(stage, proxy, given.streams, events)
                lost = given.streams * events - found.events
                delays = [f"{value / 1e3:.2f}" for value in found.delay_us]
                kb = "-" if proxy.process is None else f"{grown_kb / given.streams:.1f}"
                rows.append([proxy.name, str(found.events), str(lost), str(found.bad + found.unanswered)])
                rows[-1] += [str(found.late), *delays, kb]
        heads = ["events", "lost", "bad streams", "late (50 ms)", *(f"delay ms {name}" for name in QUANTILES)]
        print(figures.table([f"{given.streams} streams", *heads, "RSS KB a stream"], rows))
        print(f"promised: nothing lost, nothing late but what is late direct, {RSS_BOUND_KB:.0f} KB a stream")


if __name__ == "__main__":
    main()
