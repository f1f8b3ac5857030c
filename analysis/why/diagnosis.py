"""Why is each arm as fast as it is?  Span by span, and over all of them, with evidence and what to try."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any, Final

from analysis.cost.slices import Runs
from analysis.why.rows import advice, rows
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


class Diagnoses:
    """Diagnoses of arms' spans; one that was made is not made again while its readings are the same."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, int, int], tuple[tuple[int, ...], Signals, Finding]] = {}

    def why(
        self,
        runs: Mapping[str, Runs],
        telemetry: Telemetry,
        most: int | None = None,
        latest: int | None = None,
    ) -> dict[str, dict[str, Any]]:
        """The diagnosis of each arm, JSON-able, over the runs in which it was judged.

        `most`: spans are so long that an arm has about so many of them.  `latest`: so many spans are told one
        by one, the last ones (None: all); all of them are counted.
        """
        made, self._made = self._made, {}
        return {arm: self._arm(made, own, telemetry, arm, most, latest) for arm, own in runs.items()}

    def _arm(
        self,
        made: Mapping[tuple[str, int, int], tuple[tuple[int, ...], Signals, Finding]],
        runs: Runs,
        telemetry: Telemetry,
        arm: str,
        most: int | None,
        latest: int | None,
    ) -> dict[str, Any]:
        seen = []
        for begin_ns, end_ns in _spans(runs, most):
            known, key = telemetry.seen(arm, begin_ns, end_ns), (arm, begin_ns, end_ns)
            found = made.get(key)
            if found is None or found[0] != known:
                signals = telemetry.signals(arm, begin_ns, end_ns)
                found = (known, signals, diagnose(signals))
            self._made[key] = found
            seen.append((begin_ns, found[1], found[2]))
        counts = Counter(finding.cause for _, _, finding in seen)
        main: Cause = max(sorted(counts), key=lambda cause: counts[cause], default="unknown")
        is_main = bool(seen) and main != "unknown" and counts[main] > _MOST * len(seen)
        own = [(signals, finding) for _, signals, finding in seen if finding.cause == main or not is_main]
        kind = telemetry.kind(arm)
        said = {
            "kind": kind,
            "spans": len(seen),
            "shares": {cause: n / len(seen) for cause, n in counts.most_common()},
            "cause": main if is_main else None,
            **_evidence(own),
            "tested": TESTED,
            "course": [
                {
                    "at_ns": begin_ns,
                    "cause": finding.cause,
                    "strength": finding.strength,
                    **_values(signals, finding),
                }
                for begin_ns, signals, finding in (seen if latest is None else seen[-latest:])
            ],
        }
        silence = telemetry.silence(arm)
        said["withheld"] = None if is_main else _withheld(len(seen), counts["unknown"], silence)
        said["try"] = [
            {"flag": one.flag, "why": one.why, "effect": one.effect, "strength": said["strength"]}
            for one in tries(said["cause"], kind)
        ]
        # In words, too: what limits it, its share of the time, certainty, reason, evidence; and advice.
        (row,) = rows({arm: said})
        return {**said, "row": row[1:], "advice": advice(said)}


def _spans(runs: Runs, most: int | None) -> Iterator[tuple[int, int]]:
    """Runs cut into pieces of `SPAN_S`, the last up to twice as long; one that is shorter is one piece.

    Where that makes more than `most` of them, pieces are 2, 4, 8 … times as long.
    """
    begins, ends = runs.slices.of("begin_ns"), runs.slices.of("end_ns")
    edges = [(int(begins[first]), int(ends[after - 1])) for first, after in runs.spans()]
    span_ns = int(SPAN_S * 1e9)
    total_ns = sum(end_ns - begin_ns for begin_ns, end_ns in edges)
    while most is not None and total_ns > most * span_ns:
        span_ns *= 2
    for begin_ns, end_ns in edges:
        pieces = max(1, (end_ns - begin_ns) // span_ns)
        yield from pairwise([*(begin_ns + n * span_ns for n in range(pieces)), end_ns])


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
        return "nothing is judged yet over two whole units of time: wait for more traffic"
    if silence is not None:
        return f"{silence}: switch its metrics on (SGLang: --enable-metrics, llama.cpp: --metrics)"
    if unknown > _MOST * spans:
        return "no rule holds in most of the time: no limit that they know stands out"
    return "no one cause holds in most of the time"
