"""Is it alive, is it ready, and what do the counters say?  /livez, /readyz, /metrics."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from analysis.switches import BRAKES, BY_HAND, CONFIG
from analysis.web.arm_metrics import arm_metrics
from analysis.web.source import SOURCE
from analysis.web.turn_metrics import turn_metrics

METRICS_DIR: web.AppKey[str | None] = web.AppKey("metrics_dir")


async def livez(_request: web.Request) -> web.Response:
    """200 as long as this process answers."""
    return web.json_response({"alive": True})


async def readyz(request: web.Request) -> web.Response:
    """200 when a worker has just reported and every fleet has an engine up; else 503 with the reasons."""
    reasons = request.app[SOURCE].not_ready()
    return web.json_response({"ready": not reasons, "reasons": reasons}, status=503 if reasons else 200)


async def metrics(request: web.Request) -> web.Response:
    """All processes' metrics in Prometheus' text format, this process's own computed now."""
    source = request.app[SOURCE]
    rankings = [r for name in source.names() if (r := await source.ranking(name)) is not None]
    body = await asyncio.to_thread(_exposition, source.status(), rankings, request.app[METRICS_DIR])
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _exposition(status: Mapping[str, Any], rankings: list[dict[str, Any]], folder: str | None) -> bytes:
    for _ in range(2):
        try:
            return _workers(folder) + _own(status, rankings, incomplete=False)
        except (
            Exception
        ):  # a worker's file may be half written, or go while it is read: the library lets that escape
            continue
    return _own(status, rankings, incomplete=True)


def _workers(folder: str | None) -> bytes:
    """What the workers have written into `folder`."""
    if folder is None or not os.path.isdir(folder):
        return b""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


def _own(status: Mapping[str, Any], rankings: list[dict[str, Any]], *, incomplete: bool) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Own(status, rankings, incomplete))
    return generate_latest(registry)


class _Own(Collector):
    """This process's figures. Computed when scraped: metric objects would write into the workers' files."""

    def __init__(self, status: Mapping[str, Any], rankings: list[dict[str, Any]], incomplete: bool) -> None:
        self._status = status
        self._incomplete = incomplete
        self._rankings = rankings

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield from self._process()
        yield from self._launched()
        yield from turn_metrics(self._status)
        yield from self._experiments()
        yield from arm_metrics(self._rankings)
        yield from self._pauses()

    def _process(self) -> Iterator[Metric]:
        yield from self._config()
        frames = CounterMetricFamily(
            "shadowlane_analysis_frames", "Observation frames taken, by kind.", labels=["kind"]
        )
        for kind, n in self._status["frames"].items():
            frames.add_metric([kind], n)
        yield frames
        troubles = GaugeMetricFamily(
            "shadowlane_analysis_troubles", "Frames dropped and log records waiting or lost.", labels=["what"]
        )
        for what, n in self._status["troubles"].items():
            troubles.add_metric([what], n)
        yield troubles
        yield GaugeMetricFamily(
            "shadowlane_metrics_incomplete",
            "1 when workers' metrics could not be read.",
            value=self._incomplete,
        )
        waiting = self._status["inbox"]["waiting"]
        yield GaugeMetricFamily(
            "shadowlane_analysis_inbox_frames", "Frames not yet worked on.", value=waiting
        )

    def _config(self) -> Iterator[Metric]:
        config = self._status.get("config") or {}
        if not config:
            return
        reloads = CounterMetricFamily(
            "shadowlane_config_reloads", "New configurations read, by what came of them.", labels=["outcome"]
        )
        for what in ("applied", "unchanged", "refused"):
            reloads.add_metric([what], config["reloads"].get(what, 0))
        yield reloads
        yield GaugeMetricFamily(
            "shadowlane_config_ok",
            "1 while the last configuration read is the one in use, 0 after one was refused.",
            value=float(config["error"] is None),
        )
        yield GaugeMetricFamily(
            "shadowlane_config_generation",
            "The number of the configuration in use.",
            value=config["generation"],
        )
        found = GaugeMetricFamily(
            "shadowlane_discovered_engines", "Engines in use that discovery found.", labels=["fleet"]
        )
        failing = GaugeMetricFamily(
            "shadowlane_discovery_failing",
            "1 while a fleet's source gives no usable answer.",
            labels=["fleet"],
        )
        for fleet, source in self._status.get("discovery", {}).items():
            found.add_metric([fleet], source["engines"])
            failing.add_metric([fleet], float(source["error"] is not None))
        yield from (found, failing)

    def _launched(self) -> Iterator[Metric]:
        engines = (self._status.get("launched") or {}).get("engines", ())
        if not engines:
            return
        who = ["experiment", "arm"]
        state = GaugeMetricFamily(
            "shadowlane_launched_engine",
            "1 for the state that a launched engine is in.",
            labels=[*who, "state"],
        )
        starts = CounterMetricFamily(
            "shadowlane_launched_engine_starts", "How often an engine was started.", labels=who
        )
        deaths = CounterMetricFamily(
            "shadowlane_launched_engine_deaths", "How often it died, or did not come to serve.", labels=who
        )
        for engine in engines:
            arm = [engine["experiment"], engine["arm"]]
            state.add_metric([*arm, engine["state"]], 1)
            starts.add_metric(arm, engine["starts"])
            deaths.add_metric(arm, engine["deaths"])
        yield from (state, starts, deaths)

    def _pauses(self) -> Iterator[Metric]:
        paused = GaugeMetricFamily(
            "shadowlane_experiment_paused",
            "1 for the reason why an experiment is paused now.",
            labels=["experiment", "reason"],
        )
        trips = CounterMetricFamily(
            "shadowlane_experiment_trips",
            "How often an experiment paused itself, by reason.",
            labels=["experiment", "reason"],
        )
        for one in self._status["experiments"]:
            why = one.get("paused")
            for reason in (BY_HAND, CONFIG, *BRAKES):
                paused.add_metric([one["name"], reason], float(why is not None and why["reason"] == reason))
            for reason in BRAKES:
                trips.add_metric([one["name"], reason], (one.get("trips") or {}).get(reason, 0))
        yield from (paused, trips)

    def _experiments(self) -> Iterator[Metric]:
        pairs = GaugeMetricFamily(
            "shadowlane_experiment_pairs", "Pairs of the current epoch.", labels=["experiment"]
        )
        live = GaugeMetricFamily(
            "shadowlane_experiment_live", "1 when live, 0 while calibrating.", labels=["experiment"]
        )
        copies = GaugeMetricFamily(
            "shadowlane_experiment_copies",
            "Copies admitted, paired, and dropped by reason.",
            labels=["experiment", "fate", "reason"],
        )
        ratio = GaugeMetricFamily(
            "shadowlane_verdict_ratio",
            "Candidate over control, geometric mean; bound is value, lower or upper.",
            labels=["experiment", "candidate", "metric", "bound"],
        )
        verdict = GaugeMetricFamily(
            "shadowlane_verdict",
            "1 for the label a verdict has now.",
            labels=["experiment", "candidate", "metric", "label"],
        )
        for ranking in self._rankings:
            name = ranking["experiment"]
            pairs.add_metric([name], ranking["pairs"])
            live.add_metric([name], float(ranking["phase"] == "live"))
            books = ranking["books"]
            copies.add_metric([name, "admitted", ""], books["admitted"])
            copies.add_metric([name, "paired", ""], books["paired"])
            for reason, n in books["dropped"].items():
                copies.add_metric([name, "dropped", reason], n)
            for candidate in ranking["candidates"]:
                for metric, said in candidate["verdicts"].items():
                    who = [name, candidate["name"], metric]
                    verdict.add_metric([*who, said["label"]], 1)
                    for bound, key in (("value", "ratio"), ("lower", "lower"), ("upper", "upper")):
                        if said.get(key) is not None:
                            ratio.add_metric([*who, bound], said[key])
        yield from (pairs, live, copies, ratio, verdict)
