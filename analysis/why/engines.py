"""What did one engine count at one moment?  A frame of the shadow process, checked field by field."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

COUNTERS: Final = ("preemptions", "steps", "computed_tokens", "generated_tokens", "flops", "bytes")
GAUGES: Final = ("running", "queued", "kv_usage", "retracted")


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at one arm's engine.

    `late_ms`: how late the shadow process was to look; `busy_ns`: the integral of what it had in flight there
    until now.  `said`: gauges and counters by name, those that the engine tells; `why` it tells none.
    """

    arm: str
    at_ns: int
    late_ms: float
    busy_ns: int
    kind: str | None = None
    said: Mapping[str, float] = field(default_factory=dict)
    why: str | None = None


def read_engine(body: Mapping[str, Any]) -> Reading:
    """ValueError, KeyError, TypeError or AttributeError: the body is no such frame."""
    said: Mapping[str, Any] = body.get("said") or {}
    arm, kind, why = body["arm"], said.get("kind"), body.get("why")
    if not isinstance(arm, str) or not isinstance(kind, str | None) or not isinstance(why, str | None):
        raise ValueError("a reading of an engine names its arm, and its kind in a word")
    values = {name: float(said[name]) for name in (*COUNTERS, *GAUGES) if said.get(name) is not None}
    late_ms = float(body["late_ms"])
    if not all(isfinite(value) and value >= 0.0 for value in (*values.values(), late_ms)):
        raise ValueError("what an engine counts is never negative, nor without end")
    at_ns, busy_ns = int(body["at_ns"]), int(body["busy_ns"])
    if max(abs(at_ns), abs(busy_ns)) >= 1 << 63:
        raise ValueError("a reading has instants that fit a clock")
    return Reading(arm, at_ns, late_ms, busy_ns, kind, values, why)
