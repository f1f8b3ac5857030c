"""Experiments whose arms take turns, for Prometheus: whose turn it is, and how far a replay is."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric


def turn_metrics(status: Mapping[str, Any]) -> Iterator[Metric]:
    """By what the shadow process last told; nothing where no arms take turns."""
    told = {
        one["experiment"]: one["slots"]
        for process in status["processes"]
        for one in process.get("experiments", ())
        if one.get("slots")
    }
    if not told:
        return
    blocks = CounterMetricFamily(
        "shadowlane_turns_blocks", "Blocks of two slots that were begun.", labels=["experiment"]
    )
    standing = GaugeMetricFamily(
        "shadowlane_turns_standing", "1 for the arm that has its turn.", labels=["experiment", "arm"]
    )
    missing = GaugeMetricFamily(
        "shadowlane_turns_missing", "1 for an arm that did not come when due.", labels=["experiment", "arm"]
    )
    done = GaugeMetricFamily(
        "shadowlane_replay_share", "The share of a replay that is done.", labels=["experiment"]
    )
    requests = CounterMetricFamily(
        "shadowlane_replay_requests", "Requests of a replay that arms were sent.", labels=["experiment"]
    )
    wanted = GaugeMetricFamily(
        "shadowlane_replay_requests_wanted", "Requests that a whole replay sends.", labels=["experiment"]
    )
    late = GaugeMetricFamily(
        "shadowlane_replay_late_seconds",
        "How long after its instant the latest request of the last block was sent.",
        labels=["experiment"],
    )
    left = GaugeMetricFamily(
        "shadowlane_replay_left_seconds", "Until all is sent, as things go now.", labels=["experiment"]
    )
    for name, slots in told.items():
        blocks.add_metric([name], slots["blocks"])
        if slots["standing"] is not None:
            standing.add_metric([name, slots["standing"]], 1)
        for arm in slots["troubles"]:
            missing.add_metric([name, arm], 1)
        turns = (slots["replay"] or {}).get("turns")
        if turns:
            replay = slots["replay"]
            done.add_metric([name], min(1.0, slots["turns"] / turns))
            requests.add_metric([name], replay["sent"])
            wanted.add_metric([name], replay["sends"])
            if replay["late_ms"] is not None:
                late.add_metric([name], replay["late_ms"] / 1e3)
            if replay["left_s"] is not None:
                left.add_metric([name], replay["left_s"])
    yield from (blocks, standing, missing, done, requests, wanted, late, left)
