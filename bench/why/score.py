"""What was found of each fault?  Blindly: the diagnosis is given readings, and no more."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from analysis.why.rules import Cause, diagnose
from analysis.why.signals import Telemetry
from bench.why.faults import SCENES
from bench.why.world import ARM, Run, S

# What of the GPU is recorded.
TELEMETRY: Final[Mapping[str, tuple[str, ...]]] = {
    "DCGM with profiling": ("utilisation", "memory_busy", "tensor_busy"),
    "NVML": ("utilisation", "memory_busy"),
    "engine's metrics only": (),
}
_SPAN_S: Final = 30


@dataclass(frozen=True, slots=True)
class Found:
    """One span: what was injected, what was found, by which telemetry, and how sure it said it was."""

    telemetry: str
    injected: Cause
    found: Cause
    strength: str | None


def scored(runs: int, seconds: int, seed: int) -> Iterator[Found]:
    """Every fault `runs` times, each for so many seconds, in every kind of telemetry."""
    for injected, scene_of in SCENES.items():
        for number in range(runs):
            own = Random(f"{seed} {injected} {number}")
            looks = list(Run(scene_of(own), own.randrange(1 << 30)).looks(seconds))
            for telemetry, kept in TELEMETRY.items():
                yield from _of(telemetry, injected, looks, kept)


def _of(telemetry: str, injected: Cause, looks: list[Any], kept: tuple[str, ...]) -> Iterator[Found]:
    seen = Telemetry()
    for reading, frame in looks:
        seen.engine(replace(reading))
        gpus = [{"uuid": gpu["uuid"], **{name: gpu[name] for name in kept}} for gpu in frame["gpus"]]
        if kept:
            seen.gpus({**frame, "gpus": gpus})
    first, last = looks[0][0].at_ns, looks[-1][0].at_ns
    for begin_ns in range(first, last - _SPAN_S * S + 1, _SPAN_S * S):
        finding = diagnose(seen.signals(ARM, begin_ns, begin_ns + _SPAN_S * S))
        yield Found(telemetry, injected, finding.cause, finding.strength)


def table(found: list[Found], telemetry: str) -> dict[Cause, Counter[Cause]]:
    """The confusion: injected to how often each was found."""
    rows: dict[Cause, Counter[Cause]] = {cause: Counter() for cause in SCENES}
    for one in found:
        if one.telemetry == telemetry:
            rows[one.injected][one.found] += 1
    return rows
