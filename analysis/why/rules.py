"""What limits an arm?  The rules, all of them, in one table: the first that holds is the diagnosis.

A rule whose signals were not recorded is passed over, and what it would have found is not ruled out.  Bounds
are reasoned, not fitted; `bench/why` counts how often they are right about an emulated engine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from analysis.why.signals import Signals

Cause = Literal[
    "client",
    "network",
    "idle",
    "kv_capacity",
    "stalled",
    "scheduling",
    "cpu",
    "memory_bandwidth",
    "compute",
    "unknown",
]
Strength = Literal["measured", "inferred"]


@dataclass(frozen=True, slots=True)
class Rule:
    """`cause` limits the arm where `holds`; `needs` are signals without which that cannot be said.

    `shows` are the signals that are its evidence.  "measured": a counter says so; "inferred": it follows from
    what such engines and GPUs usually do.  `says` is the rule in words.
    """

    cause: Cause
    strength: Strength
    needs: tuple[str, ...]
    holds: Callable[["Known"], bool]
    says: str


class Known:
    """Signals as numbers, for rules that need them only where they are known."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals

    def __getattr__(self, name: str) -> float:
        value = self._signals.known(name)
        assert value is not None, f"a rule that uses {name} needs it"
        return value


LIMIT: Final = 0.85  # of the KV cache: fuller, and the next request may not fit
BUSY: Final = 0.7  # of the time a kernel ran: less, and the GPU waits for its host
# Tokens in a step at which 16-bit weights take as long to be read as to be computed with: peak flops by
# bandwidth, 2 flops and 2 bytes a weight. A100 153, H100 SXM 295, H200 206, L40S 419 (NVIDIA's data sheets,
# dense): well below that a step waits for memory, well above for arithmetic.
FEW_TOKENS: Final = 100.0
MANY_TOKENS: Final = 500.0

RULES: Final = (
    Rule("client", "measured", ("late",), lambda s: s.late > 0.1,
         "the shadow process was 50 ms late in over a tenth of looks: it is too slow to measure"),
    Rule("network", "measured", ("inflight", "running", "queued"),
         lambda s: s.inflight >= 4.0 and s.inflight - s.running - s.queued > 0.3 * s.inflight,
         "over 30 % of the requests in flight neither run nor wait at the engine: they are under way"),
    Rule("kv_capacity", "measured", ("preemptions", "kv_usage"),
         lambda s: s.preemptions > 0.0 and s.kv_usage >= LIMIT,
         "requests were preempted, and the KV cache is over 85 % full"),
    Rule("kv_capacity", "measured", ("queued", "kv_usage"),
         lambda s: s.queued >= 1.0 and s.kv_usage >= LIMIT,
         "requests wait, and the KV cache is over 85 % full"),
    Rule("stalled", "measured", ("queued", "kv_usage", "working"),
         lambda s: s.queued >= 1.0 and s.kv_usage < LIMIT and s.working < 0.5,
         "requests wait though the KV cache has room, and at over half the looks the engine ran none"),
    Rule("idle", "measured", ("working", "queued"), lambda s: s.working < 0.5 and s.queued < 1.0,
         "at over half the looks the engine ran no request, and none waited"),
    Rule("scheduling", "inferred", ("queued", "kv_usage", "pinned"),
         lambda s: s.queued >= 1.0 and s.kv_usage < LIMIT and s.pinned >= 0.8,
         "requests wait though the KV cache has room, and as many run all the time: a limit of the batch"),
    Rule("stalled", "inferred", ("queued", "kv_usage", "gpu_busy"),
         lambda s: s.queued >= 1.0 and s.kv_usage < LIMIT and s.gpu_busy < BUSY,
         "requests wait though the KV cache has room, and in over 30 % of the time the GPU runs no kernel"),
    Rule("cpu", "measured", ("working", "gpu_busy"), lambda s: s.working >= 0.9 and s.gpu_busy < BUSY,
         "requests run all the time, and in over 30 % of it the GPU runs no kernel: it waits for the host"),
    Rule("memory_bandwidth", "measured", ("memory_busy", "tensor_busy"),
         lambda s: s.memory_busy >= 0.5 and s.memory_busy > s.tensor_busy,
         "the memory is busy over half the time, more than the tensor cores"),
    Rule("compute", "measured", ("memory_busy", "tensor_busy"),
         lambda s: s.tensor_busy >= 0.4 and s.tensor_busy >= s.memory_busy,
         "the tensor cores do over 40 % of what they can, more than the memory"),
    Rule("memory_bandwidth", "inferred", ("working", "intensity"),
         lambda s: s.working >= 0.5 and s.intensity < FEW_TOKENS,
         "by the engine's own estimate under 100 flops for each byte moved"),
    Rule("compute", "inferred", ("working", "intensity"),
         lambda s: s.working >= 0.5 and s.intensity > MANY_TOKENS,
         "by the engine's own estimate over 500 flops for each byte moved"),
    Rule("memory_bandwidth", "inferred", ("working", "step_tokens"),
         lambda s: s.working >= 0.5 and s.step_tokens < FEW_TOKENS,
         "under 100 tokens a step: with 16-bit weights reading them takes longer than computing"),
    Rule("compute", "inferred", ("working", "step_tokens"),
         lambda s: s.working >= 0.5 and s.step_tokens > MANY_TOKENS,
         "over 500 tokens a step: with 16-bit weights computing takes longer than reading them"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """The diagnosis of one span: `rule` None where none holds.

    `open`: causes of rules before it that could not be tried, so that they are not ruled out; `lacking` what
    they need.
    """

    cause: Cause
    strength: Strength | None
    rule: Rule | None
    open: tuple[Cause, ...]
    lacking: tuple[str, ...]


def diagnose(signals: Signals) -> Finding:
    """The first rule that holds; what is not ruled out makes it an inference."""
    known = Known(signals)
    passed_over: dict[Cause, None] = {}
    tried: set[Cause] = set()
    lacking: dict[str, None] = {}
    for rule in RULES:
        missing = [name for name in rule.needs if signals.known(name) is None]
        # Without a queue nothing is pinned: that is known, not missing.
        if missing == ["pinned"] and signals.queued is not None and signals.queued < 1.0:
            tried.add(rule.cause)
        elif missing:
            passed_over[rule.cause] = None
            lacking |= dict.fromkeys(missing)
        elif rule.holds(known):
            still = tuple(cause for cause in passed_over if cause not in tried and cause != rule.cause)
            strength: Strength = "inferred" if still else rule.strength
            return Finding(rule.cause, strength, rule, still, tuple(lacking))
        else:
            tried.add(rule.cause)
    still = tuple(cause for cause in passed_over if cause not in tried)
    return Finding("unknown", None, None, still, tuple(lacking))
