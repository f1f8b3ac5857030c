"""Does production notice that its requests are mirrored?  Latency, CPU, errors: mirroring off, on, stalled.

    python -m bench.isolation
    python -m bench.isolation --only shadowlane --bounds --minutes 5

Slices of seconds alternate between no mirroring, two copies of every request to targets that answer, and two
copies to targets that take connections and read nothing.  What is judged is the difference between two slices
of one round: equivalent, where the 95 % bootstrap interval of its median lies within the bound on both sides.
A proxy's processes share one core; load, engines and targets have the other.  Those of the gateway that serve
nobody have a third, or where there is none the other; `--together` they are with the worker, the worst case.
What copies cost on the load's core gives way to load and engines: in the field those have their own.
Requests come at a fixed rate, whether or not earlier ones were answered.

`--bounds` measures only what has a bound, as narrowly as its time allows: states go forth and back (off,
on, stalled, stalled, on, off), so that a drift of the machine counts for and against.  What a chunk costs is
compared within a visit: a load with no copies, two with, one without, then the other way round, switched by
the kill switch, so that what is compared lies seconds apart.  All streams' events come at once, as from an
engine's steps: else chance decides how many a worker wakes up for, and that is most of what a chunk costs.
Of the differences the fifths that lie farthest out on either side are left out before the mean is taken.
"""

import argparse
import math
import os
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench import figures, procfs
from bench.load import Answered, Load
from bench.mirrors import OFF, ON, STALLED, STATES, Mirror, Targets, gateway, peers
from bench.proxies import Shadowlane
from bench.stage import HANDED_OVER_S, LOAD_CORE, Stage, staged

GAP_MS = 10.0
_PATIENCE_S = 2.0  # with what is unanswered when a slice ends: production has failed it
REQUESTS = Load(connections=64, rate=200.0, requests=300, seconds=2.0, patience=_PATIENCE_S)
STREAMS = Load(connections=64, rate=60.0, requests=90, events=20, seconds=2.0, patience=1.0 + _PATIENCE_S)
# All at once: what a chunk costs where an engine's steps bring many together.
CHUNKS = Load(
    connections=100, requests=100, events=150, seconds=1.0, patience=2.0 + _PATIENCE_S, together=True
)
# Whether nothing is copied, load by load, of a visit with `--bounds`.
HUSHED = (True, False, False, True, False, True, True, False)
WARM_UP = Load(rate=200.0, requests=60, seconds=0.5)
# What mirroring may add to production, and be called nothing: in µs, on both sides.
CHUNK, CHUNK_HUSHED = "CPU a chunk", "CPU a chunk, no copies"
BOUNDS = {"TTFT p50": 200.0, CHUNK: 1.5}
SHOWN = (
    "request p50", "request p99", "TTFT p50", "TTFT p99", "ITL p50", "ITL p99", "CPU a request",
    CHUNK, CHUNK_HUSHED,
)  # fmt: skip
_TARGET_US = 3.0  # that a target cannot answer a request within

Slice = Mapping[str, float]
Found = dict[tuple[str, str], list[Slice]]


class NotMirroredError(Exception):
    """A slice that was to be mirrored was not: its figures say nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """One load's answers and the CPU time that production paid for them."""

    answered: Answered
    cpu_us: float
    wanted: int

    @property
    def failed(self) -> int:
        """Requests that were due and not answered well, or not in time."""
        return self.wanted - (self.answered.answers - self.answered.bad)


def loaded(stage: Stage, mirror: Mirror, state: str, load: Load) -> Run:
    """One load in one state."""
    pids = mirror.counted()
    before_ns = procfs.cpu_ns(pids)
    answered = stage.programs.run(mirror.ports[state], load, strict=False)
    time.sleep(HANDED_OVER_S)
    return Run(answered, (procfs.cpu_ns(pids) - before_ns) / 1e3, load.requests)


def sliced(stage: Stage, targets: Targets, mirror: Mirror, state: str, *, bounds: bool = False) -> Slice:
    """One slice: requests, streams that begin one after the other, streams all at once; with `bounds` no
    requests, and the last with copies and without them by turns."""
    if state == STALLED:
        targets.renew()
    mirror.enter(state)
    stage.programs.run(mirror.ports[OFF], WARM_UP)
    worked_ns = targets.worked_ns()
    requests = [] if bounds else [loaded(stage, mirror, state, REQUESTS)]
    streams = loaded(stage, mirror, state, STREAMS)
    hushed: list[Run] = []
    if not bounds:
        chunks = [loaded(stage, mirror, state, CHUNKS)]
    else:
        chunks, hushed = by_turns(stage, mirror, state) if state != OFF else ([], [])
    mirrored = [*requests, streams, *chunks]
    copies_us, asked = (targets.worked_ns() - worked_ns) / 1e3, sum(run.wanted for run in mirrored)
    if state == ON and copies_us < _TARGET_US * asked:
        raise NotMirroredError(f"{mirror.running.name}: the targets had {copies_us:.0f} µs of work")
    runs = [*mirrored, *hushed]
    found = {**_stream_figures(streams), **_chunk_figures(CHUNK, chunks)}
    found |= _chunk_figures(CHUNK_HUSHED, hushed)
    for run in requests:
        found |= _request_figures(run)
    asked = sum(run.wanted for run in runs)
    return {**found, "failed": sum(run.failed for run in runs), "asked": asked}


def by_turns(stage: Stage, mirror: Mirror, state: str) -> tuple[list[Run], list[Run]]:
    """Loads of chunks with copies, and those without between them."""
    runs: dict[bool, list[Run]] = {False: [], True: []}
    for silent in HUSHED:
        mirror.hush(silent)
        runs[silent].append(loaded(stage, mirror, OFF if silent else state, CHUNKS))
    mirror.hush(False)
    return runs[False], runs[True]


def _request_figures(run: Run) -> Slice:
    p50, _, p99, *_ = run.answered.latency_us or _NONE
    cpu_us = run.cpu_us / run.answered.answers if run.answered.answers else _NONE[0]
    return {"request p50": p50, "request p99": p99, "CPU a request": cpu_us}


def _stream_figures(run: Run) -> Slice:
    first_us, gap_us = run.answered.first_us or _NONE, run.answered.gap_us or _NONE
    return {"TTFT p50": first_us[0], "TTFT p99": first_us[2], "ITL p50": gap_us[0], "ITL p99": gap_us[2]}


def _chunk_figures(name: str, runs: Sequence[Run]) -> Slice:
    if not runs:
        return {}
    events = sum(run.answered.events for run in runs)
    return {name: sum(run.cpu_us for run in runs) / events if events else _NONE[0]}


_NONE = [float("nan")] * 5


def orders(rng: random.Random, *, bounds: bool) -> list[list[str]]:
    """In which order a round has its states: at random, and with `bounds` once more from the last to the
    first."""
    forth = rng.sample(STATES, len(STATES))
    return [forth, forth[::-1]] if bounds else [forth]


def measured(
    stage: Stage,
    targets: Targets,
    mirrors: Sequence[Mirror],
    rounds: int,
    seconds: float = math.inf,
    *,
    bounds: bool = False,
) -> Found:
    """Every proxy in every state, once a round (with `bounds` twice), in random order.

    No round begins after so many `seconds`.
    """
    found: Found = {}
    rng, began_s = random.Random(), time.monotonic()
    for number in range(rounds):
        for mirror in rng.sample(mirrors, len(mirrors)):
            for states in orders(rng, bounds=bounds):
                for state in states:
                    one = sliced(stage, targets, mirror, state, bounds=bounds)
                    found.setdefault((mirror.running.name, state), []).append(one)
        gone_s = time.monotonic() - began_s
        print(f"round {number + 1} of {rounds} at most, {gone_s:.0f} s", flush=True)
        if gone_s >= seconds:
            break
    return found


def levels(found: Found) -> str:
    """The medians over rounds; of failures the sum."""
    rows = []
    shown = [what for what in SHOWN if any(what in slices[0] for slices in found.values())]
    for (name, state), slices in sorted(
        found.items(), key=lambda item: (item[0][0], STATES.index(item[0][1]))
    ):
        cells = [
            f"{statistics.median(one[what] for one in slices):.1f}" if what in slices[0] else "-"
            for what in shown
        ]
        asked, failed = (sum(one[what] for one in slices) for what in ("asked", "failed"))
        rows.append([f"{name}, {state}", *cells, f"{failed:.0f} of {asked:.0f}"])
    return figures.table(["µs, medians", *shown, "failed"], rows)


def differences(found: Found, *, bounds: bool = False) -> str:
    """What mirroring adds, slice against slice of one round, with its interval and what follows."""
    rows = []
    for name in dict.fromkeys(name for name, _ in found):
        for state in (ON, STALLED):
            for what in BOUNDS if bounds else [w for w in SHOWN if w in found[name, OFF][0]]:
                where, which = (state, CHUNK_HUSHED) if bounds and what == CHUNK else (OFF, what)
                ours = [one[what] for one in found[name, state]]
                theirs = [one[which] for one in found[name, where]]
                added = (figures.trimmed_difference if bounds else figures.difference)(ours, theirs)
                row = [f"{name}, {state} - off: {what}", str(added)]
                rows.append([*row, *_judged(added, BOUNDS.get(what), len(ours))])
    return figures.table(["µs", "added [95 %]", "bound", "", ""], rows)


def _judged(added: figures.Estimate, bound: float | None, slices: int) -> list[str]:
    if bound is None:
        return ["", "", ""]
    said = figures.equivalence(added, bound)
    needed = figures.rounds_needed(added, bound, slices) if said == "undecided" else None
    more = "" if needed is None else f"{needed} slices of each, not {slices}, may decide"
    return [f"± {bound}", said, more]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, help="at most (10; as many as --minutes has time for)")
    parser.add_argument("--bounds", action="store_true", help="only what has a bound, as narrowly as can be")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no round after that")
    parser.add_argument("--only", help="proxies, by name, with commas between: nginx,shadowlane")
    parser.add_argument("--together", action="store_true", help="shadow and analysis on the worker's core")
    given = parser.parse_args()
    if given.rounds is None:
        given.rounds = 10 if given.minutes == math.inf else 10_000
    only = None if given.only is None else given.only.split(",")
    with staged() as stage:
        stage.keep_from_halting()
        engines = stage.engines(2, GAP_MS)
        targets = Targets(stage, GAP_MS)
        try:
            targets.renew()
            mirrors, missing = peers(stage, engines, targets, only)
            if only is None or "shadowlane" in only:
                mirrors.append(gateway(stage, engines, targets, Shadowlane(), together=given.together))
            os.sched_setaffinity(0, {LOAD_CORE})
            found = measured(stage, targets, mirrors, given.rounds, 60.0 * given.minutes, bounds=given.bounds)
        finally:
            targets.end()
        print(levels(found), differences(found, bounds=given.bounds), *missing, sep="\n")


if __name__ == "__main__":
    main()
