"""What was seen of an arm over some seconds?  Readings of its engine and of its GPUs, joined to one row."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any, Final

from analysis.why.engines import Reading

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


@dataclass(frozen=True, slots=True)
class _GpuLook:
    gpu_busy: float | None
    memory_busy: float | None
    tensor_busy: float | None
    throttled: float | None


class Telemetry:
    """Takes readings of arms' engines and GPUs, each arm's in order of time."""

    def __init__(self) -> None:
        self._engines: dict[str, tuple[array[int], list[Reading]]] = {}
        self._gpus: dict[str, tuple[array[int], list[_GpuLook]]] = {}

    def engine(self, reading: Reading) -> None:
        """Takes one look at an engine."""
        at_ns, readings = self._engines.setdefault(reading.arm, (array("q"), []))
        if not at_ns or reading.at_ns > at_ns[-1]:
            at_ns.append(reading.at_ns)
            readings.append(reading)

    def gpus(self, frame: Mapping[str, Any]) -> None:
        """Takes one look at an arm's GPUs, as the trial has taken it."""
        when, gpus = frame.get("at_ns"), frame["gpus"]
        if not isinstance(when, int) or not gpus:
            return
        at_ns, looks = self._gpus.setdefault(str(frame["arm"]), (array("q"), []))
        if at_ns and when <= at_ns[-1]:
            return
        at_ns.append(when)
        held = [bool(gpu["throttling"]) for gpu in gpus if gpu.get("throttling") is not None]
        busy, memory, tensor = (_mean(gpu.get(name) for gpu in gpus) for name in _BUSY)
        looks.append(_GpuLook(busy, memory, tensor, _mean(held)))

    def kind(self, arm: str) -> str | None:
        """What the arm's engine speaks, by its metrics."""
        return next((one.kind for one in reversed(self._engines.get(arm, ((), ()))[1]) if one.kind), None)

    def silence(self, arm: str) -> str | None:
        """Why nothing is known of what its engine counts; None where something is."""
        readings = self._engines.get(arm, ((), ()))[1]
        if any(one.said for one in readings):
            return None
        return next((one.why for one in reversed(readings) if one.why), "its metrics were not recorded")

    def signals(self, arm: str, begin_ns: int, end_ns: int) -> Signals:
        """What was seen of it from one instant to another."""
        looks = _between(self._gpus.get(arm), begin_ns, end_ns)
        found: dict[str, float | None] = {}
        if len(looks) >= _FEWEST:
            for name in ("gpu_busy", "memory_busy", "tensor_busy", "throttled"):
                found[name] = _mean(getattr(look, name) for look in looks)
        readings = _between(self._engines.get(arm), begin_ns, end_ns)
        if len(readings) >= _FEWEST:
            found |= _counted(readings)
        return Signals(seconds=(end_ns - begin_ns) / 1e9, **found)


def _between(known: "tuple[array[int], list[Any]] | None", begin_ns: int, end_ns: int) -> list[Any]:
    if known is None:
        return []
    at_ns, items = known
    return items[bisect_left(at_ns, begin_ns) : bisect_right(at_ns, end_ns)]


def _counted(readings: Sequence[Reading]) -> dict[str, float | None]:
    first, last = readings[0], readings[-1]
    running = [one.said["running"] for one in readings if "running" in one.said]
    full = [one.said for one in readings if one.said.get("queued", 0.0) >= 1.0]
    behind = [said["running"] for said in full if "running" in said]
    computed, generated = _rise(readings, "computed_tokens"), _rise(readings, "generated_tokens")
    steps, moved = _rise(readings, "steps"), _rise(readings, "bytes")
    flops = _rise(readings, "flops")
    tokens = None if computed is None or generated is None else computed + generated
    busy_ns = last.busy_ns - first.busy_ns
    retracted = _mean(one.said.get("retracted") for one in readings)
    preemptions = _rise(readings, "preemptions")
    return {
        "late": fmean(one.late_ms >= _LATE_MS for one in readings),
        "inflight": busy_ns / (last.at_ns - first.at_ns) if busy_ns >= 0 else None,
        "running": _mean(running),
        "queued": _mean(one.said.get("queued") for one in readings),
        "working": _mean(count >= 1.0 for count in running),
        "pinned": _mean(count >= max(running) for count in behind) if behind else None,
        "kv_usage": _mean(one.said.get("kv_usage") for one in readings),
        "preemptions": preemptions if preemptions is not None else retracted,
        "step_tokens": tokens / steps if tokens and steps else None,
        "prefill": computed / tokens if tokens and computed is not None else None,
        "intensity": flops / moved if flops and moved else None,
    }


def _rise(readings: Sequence[Reading], name: str) -> float | None:
    """By how much a counter rose; None where it is not told, or the engine began anew."""
    values = [one.said[name] for one in readings if name in one.said]
    if len(values) < _FEWEST or any(later < sooner for sooner, later in pairwise(values)):
        return None
    return values[-1] - values[0]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return fmean(known) if known else None
