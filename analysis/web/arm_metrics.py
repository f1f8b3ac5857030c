"""Under which conditions do the arms run, as Prometheus metrics?  Load, GPUs, forced and scored tokens."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_JOULES_PER_WH = 3600.0
_HZ_PER_MHZ = 1e6
_GPU_GAUGES = (
    ("utilisation", "utilisation_ratio", "Mean share of time an arm's GPU was busy.", 1.0),
    ("memory_used_bytes", "memory_used_bytes", "The most memory in use on an arm's GPU.", 1.0),
    ("power_w", "power_watts", "Mean power of an arm's GPU.", 1.0),
    ("sm_clock_mhz", "sm_clock_hertz", "Mean clock of an arm's GPU.", _HZ_PER_MHZ),
    ("throttled", "throttled_ratio", "Share of readings in which an arm's GPU was held back.", 1.0),
)


def arm_metrics(rankings: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    """Of every experiment; what is not known has no sample."""
    yield from _load(rankings)
    yield from _gpus(rankings)
    yield from _forced(rankings)
    yield from _scored(rankings)


def _load(rankings: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    inflight = GaugeMetricFamily(
        "shadowlane_experiment_inflight",
        "Requests in flight on average; the arm production is one of its engines.",
        labels=["experiment", "arm"],
    )
    rate = GaugeMetricFamily(
        "shadowlane_experiment_copy_rate", "How often a conversation is copied now.", labels=["experiment"]
    )
    marked = GaugeMetricFamily(
        "shadowlane_experiment_pairs_marked", "Pairs not judged, by why.", labels=["experiment", "mark"]
    )
    for ranking in rankings:
        name, load = ranking["experiment"], ranking.get("load") or {}
        for arm, mean in (load.get("arms") or {}).items():
            inflight.add_metric([name, arm], mean)
        if load.get("production") is not None:
            inflight.add_metric([name, "production"], load["production"])
        if load.get("rate") is not None:
            rate.add_metric([name], load["rate"])
        for mark, n in (ranking.get("marked_pairs") or {}).items():
            marked.add_metric([name, mark], n)
    yield from (inflight, rate, marked)


def _gpus(rankings: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    who = ["experiment", "arm", "gpu"]
    gauges = [
        (key, GaugeMetricFamily(f"shadowlane_arm_gpu_{name}", text, labels=who), factor)
        for key, name, text, factor in _GPU_GAUGES
    ]
    energy = CounterMetricFamily(
        "shadowlane_arm_gpu_energy_joules", "What an arm's GPU used, by its own counter.", labels=who
    )
    xid = CounterMetricFamily(
        "shadowlane_arm_gpu_xid_errors", "Errors that the driver reported.", labels=[*who, "xid"]
    )
    for ranking in rankings:
        for arm, told in (ranking.get("hardware") or {}).items():
            for gpu in told["gpus"]:
                labels = [ranking["experiment"], arm, str(gpu["uuid"])]
                for key, gauge, factor in gauges:
                    if gpu.get(key) is not None:
                        gauge.add_metric(labels, gpu[key] * factor)
                if gpu.get("energy_wh") is not None:
                    energy.add_metric(labels, gpu["energy_wh"] * _JOULES_PER_WH)
                codes = list(gpu.get("xid") or ())
                for code in sorted(set(codes)):
                    xid.add_metric([*labels, str(code)], codes.count(code))
    yield from (gauge for _, gauge, _ in gauges)
    yield from (energy, xid)


def _forced(rankings: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    pairs = GaugeMetricFamily(
        "shadowlane_forced_pairs", "Pairs whose tokens the control dictated.", labels=["experiment"]
    )
    ratio = GaugeMetricFamily(
        "shadowlane_forced_ratio",
        "Candidate over control at equal content; bound is value, lower or upper.",
        labels=["experiment", "candidate", "metric", "bound"],
    )
    verdict = GaugeMetricFamily(
        "shadowlane_forced_verdict",
        "1 for the label that a verdict at equal content has now.",
        labels=["experiment", "candidate", "metric", "label"],
    )
    for ranking in rankings:
        name, forced = ranking["experiment"], ranking.get("forced") or {}
        if not forced:
            continue
        pairs.add_metric([name], forced["pairs"])
        for candidate, verdicts in forced["candidates"].items():
            for metric, said in verdicts.items():
                verdict.add_metric([name, candidate, metric, said["label"]], 1)
                for bound, key in (("value", "ratio"), ("lower", "lower"), ("upper", "upper")):
                    if said.get(key) is not None:
                        ratio.add_metric([name, candidate, metric, bound], said[key])
    yield from (pairs, ratio, verdict)


def _scored(rankings: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    pairs = GaugeMetricFamily(
        "shadowlane_scored_pairs",
        "Pairs in which all arms scored the control's tokens.",
        labels=["experiment"],
    )
    distance = GaugeMetricFamily(
        "shadowlane_scored_distance",
        "How far a candidate is from the control; of is value, floor, excess, or a bound of the excess.",
        labels=["experiment", "candidate", "metric", "of"],
    )
    for ranking in rankings:
        name, scored = ranking["experiment"], ranking.get("scored") or {}
        if not scored:
            continue
        pairs.add_metric([name], scored["pairs"])
        for candidate, metrics in scored["outputs"].items():
            for metric, said in metrics.items():
                excess = said.get("excess") or {}
                ends = {"excess": excess.get("value"), **{end: excess.get(end) for end in ("lower", "upper")}}
                for of, value in {"value": said["value"], "floor": said["floor"], **ends}.items():
                    if value is not None:
                        distance.add_metric([name, candidate, metric, of], value)
    yield from (pairs, distance)
