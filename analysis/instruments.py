"""Can what was measured be believed?  Checks of the clock, of the shadow process itself and of the GPUs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from analysis.checks import EVERY, FEWEST, Check
from analysis.columns import Bools, Columns, Side
from analysis.measure import LATENCIES

_IMPOSSIBLE = 0.001  # of the pairs
_LATE = 0.01  # of the timers
_FEWEST_TIMERS = 200  # ten seconds of them
_HELD_BACK = 0.05  # of the readings
_FEWEST_READINGS = 10
_LOST = 0.001  # of the copies that were sent: as many missing answers hardly move a mean, or a p99
# What hangs on an arm's answer.  "unanswered" is of logs that did not yet say whose answer never came.
_LOST_FOR = ("unanswered", "pair_too_large", "unpackable")

# Reasons for which a GPU slows down that are no part of an arm's configuration.  A cap on power is one.
_FAULTS = frozenset({"hw_slowdown", "sw_thermal", "hw_thermal", "power_brake", "reliability"})


class Clock:
    """Whether instants agree with each other: what comes later is later."""

    def __init__(self) -> None:
        self._pairs = 0
        self._impossible = 0

    def add(self, columns: Columns) -> None:
        """Takes live pairs."""
        self._pairs += len(columns)
        impossible = np.zeros(len(columns), dtype=bool)
        for side in columns.sides.values():
            impossible |= _impossible(side)
        self._impossible += int(impossible.sum())

    def check(self) -> Check:
        """Hardly a pair with an end before its beginning."""
        if self._pairs < FEWEST:
            return Check("clock", None, "too few pairs yet", EVERY)
        share = self._impossible / self._pairs
        detail = f"{share:.1%} of pairs have instants that cannot be: an end before its beginning"
        return Check("clock", share <= _IMPOSSIBLE, detail, EVERY)


def _impossible(side: Side) -> Bools:
    found: Bools = (side.end_ns < side.sent_ns) | (side.latency_ms("ttft") > side.latency_ms("e2e"))
    for latency in LATENCIES:
        found |= side.latency_ms(latency) < 0.0
    return found


class Harness:
    """How late the shadow process is, by timers of its own: so late are the instants it writes down."""

    def __init__(self) -> None:
        self._timers = 0
        self._late = 0
        self._worst_ms = 0.0

    def add(self, body: Mapping[str, Any]) -> None:
        """Takes what was said of a span of time; KeyError, TypeError or ValueError when it is not that."""
        timers, late, worst_ms = int(body["timers"]), int(body["late"]), float(body["worst_ms"])
        if not 0 <= late <= timers:
            raise ValueError(f"{late} of {timers} timers cannot be late")
        self._timers += timers
        self._late += late
        self._worst_ms = max(self._worst_ms, worst_ms)

    def check(self) -> Check:
        """At most one timer in a hundred late by 50 ms or more."""
        if self._timers < _FEWEST_TIMERS:
            return Check("harness", None, "not known yet", EVERY)
        share = self._late / self._timers
        detail = (
            f"{share:.1%} of the shadow's timers were 50 ms late or more, at worst {self._worst_ms:.0f} ms"
        )
        return Check("harness", share <= _LATE, detail, EVERY)


def gpu_clocks(hardware: Mapping[str, Any]) -> Check:
    """No arm's GPU slowed by heat or a fault in over a twentieth of readings; `hardware` is as it is shown.

    A cap on power is told: it is how the machine is set, and what an arm draws is its own doing.
    """
    told, worst, known = [], 0.0, False
    for arm, said in hardware.items():
        for gpu in said["gpus"]:
            if gpu["throttled"] is None or said["readings"] < _FEWEST_READINGS:
                continue
            known = True
            for reason, share in gpu["throttling"].items():
                if share > _HELD_BACK:
                    told.append(f"{arm} by {reason} in {share:.0%} of readings")
                    worst = max(worst, share if reason in _FAULTS else 0.0)
    if not known:
        return Check("gpu_clocks", None, "no GPU of an arm tells whether its clock is held back", EVERY)
    detail = "GPUs held back: " + "; ".join(told) if told else "no GPU was held back"
    return Check("gpu_clocks", worst == 0.0, detail, EVERY)


def missing(paired: int, dropped: Mapping[str, int]) -> Check:
    """Hardly a copy was given up for what an arm answered, or because it did not: those would be the slowest
    and the longest, and the books do not tell whose fault it is."""
    lost = {reason: n for reason in _LOST_FOR if (n := dropped.get(reason, 0))}
    sent = paired + sum(lost.values())
    if sent < FEWEST:
        return Check("missing", None, "too few copies yet", EVERY)
    share = sum(lost.values()) / sent
    told = f" ({', '.join(f'{reason} {n}' for reason, n in lost.items())})" if lost else ""
    detail = f"{share:.2%} of the copies sent were given up without a pair of answers{told}"
    return Check("missing", share <= _LOST, detail, EVERY)
