"""Why is each arm as fast as it is?  Span by span, and over all of them, with evidence and what to try."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any, Final

from analysis.cost.tally import Slice, Tally
from analysis.why.rules import Cause, Finding, diagnose
from analysis.why.signals import Signals, Telemetry
from analysis.why.tries import tries

SPAN_S: Final = 30.0
# A diagnosis of the whole is one that holds in most spans.
_MOST: Final = 0.5
TESTED: Final = "rules that were scored on an emulated engine and are untested on hardware"
# How what is lacking comes to be recorded.
MEND: Final = {
    "late": "the shadow's looks at engines (mirror.readings_s of 10 s or less)",
    "inflight": "the shadow's looks at engines (mirror.readings_s of 10 s or less)",
    "running": "the engine's metrics",
    "queued": "the engine's metrics",
    "working": "the engine's metrics",
    "pinned": "the engine's metrics",
    "kv_usage": "the KV cache's usage in the engine's metrics",
    "preemptions": "preemptions in the engine's metrics",
    "step_tokens": "steps and tokens in the engine's metrics",
    "intensity": "vLLM's estimate of its own work (--enable-mfu-metrics)",
    "gpu_busy": "its GPUs (set gpus or dcgm)",
    "memory_busy": "the activity of its GPUs' memory (set gpus or dcgm)",
    "tensor_busy": "the activity of its GPUs' tensor cores (set dcgm, with DCGM's profiling metrics)",
}


def why(
    tally: Tally, telemetry: Telemetry, arms: Sequence[str], window_ns: int | None
) -> dict[str, dict[str, Any]]:
    """The diagnosis of each arm, JSON-able; `window_ns` None: arms take turns."""
    return {arm: _arm(tally, telemetry, arm, window_ns) for arm in arms}


def _arm(tally: Tally, telemetry: Telemetry, arm: str, window_ns: int | None) -> dict[str, Any]:
    seen = []
    for begin_ns, end_ns in _spans(tally.runs(arm, window_ns)):
        signals = telemetry.signals(arm, begin_ns, end_ns)
        seen.append((begin_ns, signals, diagnose(signals)))
    counts = Counter(finding.cause for _, _, finding in seen)
    most: Cause = max(sorted(counts), key=lambda cause: counts[cause], default="unknown")
    is_main = bool(seen) and most != "unknown" and counts[most] > _MOST * len(seen)
    own = [(signals, finding) for _, signals, finding in seen if finding.cause == most]
    kind = telemetry.kind(arm)
    found = {
        "kind": kind,
        "spans": len(seen),
        "shares": {cause: n / len(seen) for cause, n in counts.most_common()},
        "cause": most if is_main else None,
        **_evidence(own if is_main else [(signals, finding) for _, signals, finding in seen]),
        "tested": TESTED,
        "course": [
            {
                "at_ns": begin_ns,
                "cause": finding.cause,
                "strength": finding.strength,
                **_values(signals, finding),
            }
            for begin_ns, signals, finding in seen
        ],
    }
    found["withheld"] = None if is_main else _withheld(len(seen), counts["unknown"], telemetry.silence(arm))
    found["try"] = [
        {"flag": one.flag, "why": one.why, "effect": one.effect, "strength": found["strength"]}
        for one in tries(found["cause"], kind)
    ]
    return found


def _spans(runs: Sequence[Sequence[Slice]]) -> Iterator[tuple[int, int]]:
    """Runs cut into pieces of `SPAN_S` or up to twice that; one that is shorter is one piece."""
    for run in runs:
        begin_ns, end_ns = run[0].begin_ns, run[-1].end_ns
        pieces = max(1, int((end_ns - begin_ns) / (SPAN_S * 1e9)))
        edges = [begin_ns + (end_ns - begin_ns) * n // pieces for n in range(pieces + 1)]
        yield from pairwise(edges)


def _evidence(own: Sequence[tuple[Signals, Finding]]) -> dict[str, Any]:
    """What speaks for the diagnosis, over the spans that have it: it is as certain as the least of them."""
    rules = Counter(finding.rule.says for _, finding in own if finding.rule is not None)
    causes = {cause: None for _, finding in own for cause in finding.open}
    lacking = {MEND[name]: None for _, finding in own for name in finding.lacking}
    names = {name: None for _, finding in own if finding.rule is not None for name in finding.rule.needs}
    values = {name: [v for signals, _ in own if (v := signals.known(name)) is not None] for name in names}
    strengths = {finding.strength for _, finding in own}
    return {
        "strength": None if not rules else "measured" if strengths == {"measured"} else "inferred",
        "because": [says for says, _ in rules.most_common()],
        "signals": {name: fmean(each) for name, each in values.items() if each},
        "not_ruled_out": list(causes),
        "lacking": list(lacking),
    }


def _values(signals: Signals, finding: Finding) -> dict[str, Any]:
    if finding.rule is None:
        return {"signals": {}}
    return {"signals": {name: signals.known(name) for name in finding.rule.needs}}


def _withheld(spans: int, unknown: int, silence: str | None) -> str:
    """Why there is no diagnosis of the whole."""
    if not spans:
        return "no judged pairs cover two whole windows yet: wait for more traffic"
    if silence is not None:
        return f"{silence}: switch its metrics on (SGLang: --enable-metrics, llama.cpp: --metrics)"
    if unknown > _MOST * spans:
        return "no rule holds in most of the time: no limit that they know stands out"
    return "no one cause holds in most of the time"
