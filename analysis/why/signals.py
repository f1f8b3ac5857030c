"""What was seen of an arm over some seconds?  Readings of its engine and of its GPUs, joined to one row."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import nan
from statistics import fmean
from typing import Any, Final

from analysis.why.engines import COUNTERS, GAUGES, Reading

_FEWEST: Final = 3  # looks at an engine, or at its GPUs, over a span
_LATE_MS: Final = 50.0
_BUSY: Final = ("utilisation", "memory_busy", "tensor_busy")


@dataclass(frozen=True, slots=True)
class Signals:
    """One span of one arm.  None: it was not recorded, or too seldom.

    `late`: the share of looks for which the shadow process itself was 50 ms late.  `inflight`: copies that
    had not their whole answer yet, by the shadow's own books.  `working`: the share of looks at which the
    engine ran a request.  `pinned`: of those with a queue, the share at which it ran as many as ever in the
    span.  `preemptions`: in all of it.  `step_tokens`: computed in one step.  `prefill`: the prompts' share
    of these.  `intensity`: flops for each byte of memory moved.  The rest are means of the GPUs'.
    """

    seconds: float
    late: float | None = None
    inflight: float | None = None
    running: float | None = None
    queued: float | None = None
    working: float | None = None
    pinned: float | None = None
    kv_usage: float | None = None
    preemptions: float | None = None
    step_tokens: float | None = None
    prefill: float | None = None
    intensity: float | None = None
    gpu_busy: float | None = None
    memory_busy: float | None = None
    tensor_busy: float | None = None
    throttled: float | None = None

    def known(self, name: str) -> float | None:
        """One of them by its name."""
        found: float | None = getattr(self, name)
        return found


class _Looks:
    """Looks at one thing, in order of time: so many values of each, NaN where one is not told."""

    def __init__(self, names: Sequence[str]) -> None:
        self.at_ns = array("q")
        self._values = {name: array("d") for name in names}

    def add(self, at_ns: int, told: Mapping[str, float | None]) -> bool:
        """Whether it was taken: one that is no later than the last is not."""
        if self.at_ns and at_ns <= self.at_ns[-1]:
            return False
        self.at_ns.append(at_ns)
        for name, values in self._values.items():
            value = told.get(name)
            values.append(nan if value is None else value)
        return True

    def rows(self, begin_ns: int, end_ns: int) -> slice:
        """Of the looks from one instant to another."""
        return slice(bisect_left(self.at_ns, begin_ns), bisect_right(self.at_ns, end_ns))

    def told(self, name: str, rows: slice) -> list[float]:
        """One value at each of these looks that tell it."""
        return [value for value in self._values[name][rows] if value == value]

    def together(self, name: str, other: str, rows: slice) -> list[tuple[float, float]]:
        """Two values at each of these looks; NaN where one is not told."""
        return list(zip(self._values[name][rows], self._values[other][rows], strict=True))


_ENGINE: Final = (*COUNTERS, *GAUGES, "late_ms")
_GPUS: Final = ("gpu_busy", "memory_busy", "tensor_busy", "throttled")


class _Engine:
    """What was seen of one arm's engine."""

    def __init__(self) -> None:
        self.looks = _Looks(_ENGINE)
        self.busy_ns = array("q")
        self.kind: str | None = None
        self.tells = False
        self.why: str | None = None


class Telemetry:
    """Takes readings of arms' engines and GPUs, each arm's in order of time."""

    def __init__(self) -> None:
        self._engines: dict[str, _Engine] = {}
        self._gpus: dict[str, _Looks] = {}

    def engine(self, reading: Reading) -> None:
        """Takes one look at an engine."""
        known = self._engines.setdefault(reading.arm, _Engine())
        if not known.looks.add(reading.at_ns, {**reading.said, "late_ms": reading.late_ms}):
            return
        known.busy_ns.append(reading.busy_ns)
        known.kind = reading.kind or known.kind
        known.why = reading.why or known.why
        known.tells |= bool(reading.said)

    def gpus(self, frame: Mapping[str, Any]) -> None:
        """Takes one look at an arm's GPUs, as the trial has taken it."""
        when, gpus = frame.get("at_ns"), frame["gpus"]
        if not isinstance(when, int) or not gpus:
            return
        held = [bool(gpu["throttling"]) for gpu in gpus if gpu.get("throttling") is not None]
        busy, memory, tensor = (_mean(gpu.get(name) for gpu in gpus) for name in _BUSY)
        told = dict(zip(_GPUS, (busy, memory, tensor, _mean(held)), strict=True))
        self._gpus.setdefault(str(frame["arm"]), _Looks(_GPUS)).add(when, told)

    def kind(self, arm: str) -> str | None:
        """What the arm's engine speaks, by its metrics."""
        return self._engines[arm].kind if arm in self._engines else None

    def silence(self, arm: str) -> str | None:
        """Why nothing is known of what its engine counts; None where something is."""
        known = self._engines.get(arm, _Engine())
        return None if known.tells else known.why or "its metrics were not recorded"

    def seen(self, arm: str, begin_ns: int, end_ns: int) -> tuple[int, ...]:
        """Which looks fall between two instants: where that is the same, so are `signals`."""
        found: list[int] = []
        for looks in (self._engines[arm].looks if arm in self._engines else None, self._gpus.get(arm)):
            rows = slice(0, 0) if looks is None else looks.rows(begin_ns, end_ns)
            found += (rows.start, rows.stop)
        return tuple(found)

    def signals(self, arm: str, begin_ns: int, end_ns: int) -> Signals:
        """What was seen of it from one instant to another."""
        found: dict[str, float | None] = {}
        if (looks := self._gpus.get(arm)) is not None:
            rows = looks.rows(begin_ns, end_ns)
            if rows.stop - rows.start >= _FEWEST:
                found |= {name: _mean(looks.told(name, rows)) for name in _GPUS}
        if (engine := self._engines.get(arm)) is not None:
            rows = engine.looks.rows(begin_ns, end_ns)
            if rows.stop - rows.start >= _FEWEST:
                found |= _counted(engine, rows)
        return Signals(seconds=(end_ns - begin_ns) / 1e9, **found)


def _counted(engine: _Engine, rows: slice) -> dict[str, float | None]:
    looks, last = engine.looks, rows.stop - 1
    running = looks.told("running", rows)
    behind = [
        count for waiting, count in looks.together("queued", "running", rows)
        if waiting >= 1.0 and count == count
    ]  # fmt: skip
    computed, generated = (_rise(looks.told(n, rows)) for n in ("computed_tokens", "generated_tokens"))
    steps, moved, flops = (_rise(looks.told(name, rows)) for name in ("steps", "bytes", "flops"))
    tokens = None if computed is None or generated is None else computed + generated
    busy_ns = engine.busy_ns[last] - engine.busy_ns[rows.start]
    preemptions = _rise(looks.told("preemptions", rows))
    return {
        "late": fmean(late_ms >= _LATE_MS for late_ms in looks.told("late_ms", rows)),
        "inflight": busy_ns / (looks.at_ns[last] - looks.at_ns[rows.start]) if busy_ns >= 0 else None,
        "running": _mean(running),
        "queued": _mean(looks.told("queued", rows)),
        "working": _mean(count >= 1.0 for count in running),
        "pinned": _mean(count >= max(running) for count in behind) if behind else None,
        "kv_usage": _mean(looks.told("kv_usage", rows)),
        "preemptions": preemptions if preemptions is not None else _mean(looks.told("retracted", rows)),
        "step_tokens": tokens / steps if tokens and steps else None,
        "prefill": computed / tokens if tokens and computed is not None else None,
        "intensity": flops / moved if flops and moved else None,
    }


def _rise(values: Sequence[float]) -> float | None:
    """By how much a counter rose; None where it is told too seldom, or the engine began anew."""
    if len(values) < _FEWEST or any(later < sooner for sooner, later in pairwise(values)):
        return None
    return values[-1] - values[0]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return fmean(known) if known else None
