"""When does an experiment pause itself?  Decided from readings, without a clock: instants are arguments.

Each brake looks at one thing that copying could harm, or that makes copying pointless, over a sliding window.
What it says holds while it is true: whoever acts on it (`mirror.switch`) waits until it was not said for a
while, and lets the experiment go on then.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Final

ERRORS: Final = "production_errors"
LATENCY: Final = "production_latency"
LANE: Final = "lane_pressure"
MEMORY: Final = "memory"
ARM_ERRORS: Final = "arm_errors"
BRAKES: Final = (ERRORS, LATENCY, LANE, MEMORY, ARM_ERRORS)

_USUAL_S: Final = 600.0  # how long production takes to get used to another latency: the reference's memory
_SETTLED_S: Final = 30.0  # of a reference, before anything is held against it
_SURPLUS_S: Final = 0.05  # a smaller rise in the 90th percentile is nobody's harm
_FULL_LOOKS: Final = 3  # in a row


@dataclass(frozen=True, slots=True)
class BrakeSpec:
    """The thresholds of one experiment's brakes, and how long a pause lasts.

    Shares are of requests or answers in the last `window_s` seconds, of which there must be `least`.  A share
    of 1 is never exceeded: such a brake is off.  After a pause of `hold_s` seconds without the cause the
    experiment goes on; each further pause is twice as long, up to `most_hold_s`.
    """

    window_s: float = 30.0
    least: int = 20
    error_share: float = 0.1
    slowdown: float | None = 3.0  # production's 90th percentile of TTFT against its usual one
    ttft_ms: float | None = None  # a bound on that percentile; None: none
    lane_share: float = 0.8  # of the lane's bytes, in one worker
    memory_bytes: int | None = None  # of one worker, or of the shadow process; None: no bound
    memory_free: float = 0.05  # the share of the machine's or container's memory that must stay; 0: off
    arm_error_share: float = 0.5
    hold_s: float = 60.0
    most_hold_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class Trip:
    """Why copying should pause, in words for the log and the page, and what would mend it."""

    reason: str
    detail: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a worker saw of production since the reading before: its ended requests, and TTFTs in seconds."""

    at_ns: int
    ended: int
    failed: int
    ttft_s: Sequence[float] = ()


@dataclass(slots=True)
class ProductionBrake:
    """Production's errors and first tokens, as one worker sees them."""

    spec: BrakeSpec
    _window: deque[Reading] = field(default_factory=deque)
    _usual_s: float | None = None
    _settled_s: float = 0.0
    _last_ns: int | None = None

    def look(self, reading: Reading) -> Trip | None:
        """Take a reading; what is wrong now, if anything."""
        window, spec = self._window, self.spec
        window.append(reading)
        while window and reading.at_ns - window[0].at_ns > spec.window_s * 1e9:
            window.popleft()
        return self._errors() or self._latency(reading.at_ns)

    def _errors(self) -> Trip | None:
        spec = self.spec
        ended = sum(one.ended for one in self._window)
        failed = sum(one.failed for one in self._window)
        if ended < spec.least or failed <= spec.error_share * ended:
            return None
        return Trip(
            ERRORS,
            f"{failed} of production's last {ended} requests failed, more than {spec.error_share:.0%}",
            "see shadowlane_requests_total by outcome for what fails; copying goes on by itself once it ends",
        )

    def _latency(self, now_ns: int) -> Trip | None:
        """The window's 90th percentile against a bound, and against what it has been of late.

        What is usual follows what is seen, with a time constant of ten minutes: production that is slower for
        good is the usual one after a while.
        """
        spec = self.spec
        seen = [ttft for one in self._window for ttft in one.ttft_s]
        if len(seen) < spec.least:
            return None
        seen.sort()
        p90_s = seen[len(seen) * 9 // 10]
        usual_s = p90_s if self._usual_s is None else self._usual_s
        settled = self._settled_s >= _SETTLED_S
        past_s = 0.0 if self._last_ns is None else min(spec.window_s, (now_ns - self._last_ns) / 1e9)
        self._last_ns = now_ns
        self._settled_s += past_s
        memory_s = _USUAL_S if settled else _SETTLED_S  # at first it is learned fast
        self._usual_s = usual_s + (p90_s - usual_s) * (1 - exp(-past_s / memory_s))
        if spec.ttft_ms is not None and p90_s * 1e3 > spec.ttft_ms:
            return Trip(
                LATENCY,
                f"the 90th percentile of production's TTFT is {p90_s * 1e3:.0f} ms,"
                f" above {spec.ttft_ms:g} ms",
                "copying goes on by itself once it is below; brakes.ttft_ms sets the bound",
            )
        if settled and spec.slowdown and p90_s > spec.slowdown * usual_s and p90_s - usual_s > _SURPLUS_S:
            return Trip(
                LATENCY,
                f"the 90th percentile of production's TTFT is {p90_s * 1e3:.0f} ms, "
                f"{p90_s / usual_s:.1f} times what is usual",
                "copying goes on by itself once it is usual again; if it rises with copying, the arms share "
                "something with production: a GPU, a host, a network",
            )
        return None


@dataclass(slots=True)
class LaneBrake:
    """One worker's lane: how full it is, or whether it was full since the look before."""

    spec: BrakeSpec
    _looks: int = 0

    def look(self, queued_bytes: int, limit_bytes: int, refused: int) -> Trip | None:
        """`refused` copies found no room since the look before.  Three looks in a row make it pressure."""
        full = refused > 0 or queued_bytes > self.spec.lane_share * limit_bytes
        self._looks = self._looks + 1 if full else 0
        if self.spec.lane_share >= 1 or self._looks < _FULL_LOOKS:
            return None
        return Trip(
            LANE,
            f"{queued_bytes >> 20} MiB of copies wait in a worker for the shadow process, of "
            f"{limit_bytes >> 20} MiB that may",
            "give the shadow process CPU, sample less (sample.rate), or allow more (mirror.lane_bytes)",
        )


def memory_trip(spec: BrakeSpec, who: str, rss_bytes: int, free: float | None) -> Trip | None:
    """Whether process `who` holds more than it may, or the machine less left than it must (None: unknown)."""
    if spec.memory_bytes is not None and rss_bytes > spec.memory_bytes:
        return Trip(
            MEMORY,
            f"{who} holds {rss_bytes >> 20} MiB of memory, more than {spec.memory_bytes >> 20} MiB",
            "sample less, bound max_inflight or mirror.lane_bytes, or raise brakes.memory_bytes",
        )
    if free is not None and free < spec.memory_free:
        return Trip(
            MEMORY,
            f"{free:.1%} of the memory here is available, less than {spec.memory_free:.1%}",
            "free memory on this machine, or allow its container more; copying goes on by itself then",
        )
    return None


@dataclass(slots=True)
class ArmBrake:
    """Each arm's answers that are no answers, over the window.  A pause forgets them."""

    spec: BrakeSpec
    _window: deque[tuple[int, Mapping[str, tuple[int, int]]]] = field(default_factory=deque)

    def look(self, now_ns: int, totals: Mapping[str, tuple[int, int]]) -> Trip | None:
        """`totals` are each arm's answers and failures since its start."""
        window, spec = self._window, self.spec
        window.append((now_ns, dict(totals)))
        while len(window) > 1 and now_ns - window[1][0] >= spec.window_s * 1e9:
            window.popleft()
        before = window[0][1]
        for arm, (answers, failures) in totals.items():
            old_answers, old_failures = before.get(arm, (0, 0))
            n, failed = answers - old_answers, failures - old_failures
            if n >= spec.least and failed > spec.arm_error_share * n:
                return Trip(
                    ARM_ERRORS,
                    f"{failed} of the last {n} answers of arm {arm} were errors, cut or missing",
                    f"look at {arm}'s log and at its endings in /api/status; then `shadowlane experiment "
                    "resume`, or wait: it is tried again by itself",
                )
        return None

    def forget(self) -> None:
        """Begin anew."""
        self._window.clear()


def hold_s(spec: BrakeSpec, times: int) -> float:
    """How long the pause number `times` (from 1) of a row lasts after its cause was last seen, in seconds."""
    return min(max(spec.most_hold_s, spec.hold_s), spec.hold_s * 2.0 ** min(times - 1, 60))
