"""Metrics: closed labels, counters that go on through restarts, nothing of the dead in the gauges."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest

from gateway.durations import E2E_S, TTFT_S, Durations
from gateway.metrics import COUNTERS, GAUGES, HISTOGRAMS, WorkerMetrics, forget_live_gauges
from gateway.outcome import Outcome
from wire.exchange import Ending

ENGINE = "http://10.0.0.5:8000"
REPOSITORY = Path(__file__).parents[2]


def made() -> WorkerMetrics:
    return WorkerMetrics(engines=[ENGINE], fleets=["llama"], experiments=["fp8-kv"])


def counted(bounds: tuple[float, ...], *seconds: float) -> Durations:
    durations = Durations(bounds)
    for one in seconds:
        durations.add(one)
    return durations


def exposed(metrics: WorkerMetrics) -> dict[str, float]:
    """Series -> value, without the instants of creation."""
    lines = generate_latest(metrics.registry).decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs if "_created" not in name}


def test_counts_since_the_start_are_exported_once_however_often_they_are_flushed() -> None:
    metrics = made()
    key = ("requests", "llama", ENGINE, "complete")
    for total in (3, 3, 5):
        metrics.flush({key: total, ("chunks",): 10 * total}, {}, {})
    series = exposed(metrics)
    name = f'shadowlane_requests_total{{engine="{ENGINE}",fleet="llama",outcome="complete"}}'
    assert series[name] == 5
    assert series["shadowlane_chunks_total"] == 50


def test_observations_and_gauges_are_exported() -> None:
    metrics = made()
    metrics.flush({}, {("ttft", "llama"): counted(TTFT_S, 0.2, 3.0)}, {("inflight", ENGINE): 7.0})
    metrics.flush({}, {}, {("inflight", ENGINE): 2.0})
    series = exposed(metrics)
    assert series['shadowlane_ttft_seconds_count{fleet="llama"}'] == 2
    assert series['shadowlane_ttft_seconds_sum{fleet="llama"}'] == pytest.approx(3.2)
    assert series['shadowlane_ttft_seconds_bucket{fleet="llama",le="0.2"}'] == 1
    assert series[f'shadowlane_inflight{{engine="{ENGINE}"}}'] == 2


@given(st.lists(st.floats(0, 2000) | st.sampled_from([0.05, 0.1, 960.0]), max_size=30))
def test_many_observations_at_once_are_the_same_as_one_by_one(values: list[float]) -> None:
    together, single = made(), made()
    together.flush({}, {("e2e", "llama"): counted(E2E_S, *values)}, {})
    for value in values:
        single._at(("e2e", "llama")).observe(value)
    assert exposed(together) == pytest.approx(exposed(single))


invention = st.text().map("~{}".format)  # none of the labels there are


@given(st.lists(st.tuples(invention, invention, invention), max_size=30))
def test_labels_invented_by_clients_make_no_series(invented: list[tuple[str, str, str]]) -> None:
    metrics = made()
    counts: dict[tuple[str, ...], int] = {("requests", *labels): 1 for labels in invented}
    counts |= {("refused", fleet): 1 for fleet, _engine, _outcome in invented}
    metrics.flush(counts, {("ttft", fleet): counted(TTFT_S, 1.0) for fleet, _e, _o in invented}, {})
    requests = {name: n for name, n in exposed(metrics).items() if name.startswith("shadowlane_requests")}
    assert len(requests) <= 1
    assert sum(requests.values()) == len(set(invented))


def test_every_outcome_and_every_ending_has_its_own_series() -> None:
    metrics = made()
    metrics.flush({("requests", "llama", ENGINE, outcome.value): 1 for outcome in Outcome}, {}, {})
    failures = [ending for ending in Ending if ending is not Ending.COMPLETE]
    metrics.flush({("upstream_errors", ENGINE, ending.value): 1 for ending in failures}, {}, {})
    assert not any('="other"' in name for name in exposed(metrics))


def test_a_metric_or_a_number_of_labels_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError):
        made().flush({("requsets", "llama"): 1}, {}, {})
    with pytest.raises(ValueError, match="labels"):
        made().flush({("requests", "llama"): 1}, {}, {})


def test_names_follow_the_conventions_of_prometheus() -> None:
    for name in (*COUNTERS, *GAUGES, *HISTOGRAMS):
        assert name == name.lower()
        assert not name.endswith(("_total", "_count", "_sum", "_bucket"))
        assert not name.endswith("_seconds") or name in GAUGES  # added to a histogram's name


WORKER = """
import sys
from gateway import durations, metrics
metrics.write_as("worker-0")
worker = metrics.WorkerMetrics(engines=["e"], fleets=["f"])
ttft = durations.Durations(durations.TTFT_S)
ttft.add(0.1)
worker.flush({("chunks",): int(sys.argv[1])}, {("ttft", "f"): ttft}, {("inflight", "e"): 4.0})
"""
SCRAPE = """
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
registry = CollectorRegistry()
MultiProcessCollector(registry)
print(generate_latest(registry).decode())
"""


def run(program: str, metrics_dir: Path, *argv: str) -> str:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(metrics_dir), "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", program, *argv]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def test_a_restarted_worker_goes_on_counting_and_leaves_no_more_files(tmp_path: Path) -> None:
    run(WORKER, tmp_path, "10")
    files = sorted(tmp_path.iterdir())
    run(WORKER, tmp_path, "5")
    assert sorted(tmp_path.iterdir()) == files
    scraped = run(SCRAPE, tmp_path)
    assert "shadowlane_chunks_total 15.0" in scraped
    assert 'shadowlane_ttft_seconds_count{fleet="f"} 2.0' in scraped
    assert 'shadowlane_inflight{engine="e"} 4.0' in scraped


def test_a_dead_worker_leaves_the_gauges_and_stays_in_the_counters(tmp_path: Path) -> None:
    run(WORKER, tmp_path, "10")
    forget_live_gauges(tmp_path, "worker-0")
    scraped = run(SCRAPE, tmp_path)
    assert "shadowlane_inflight{" not in scraped
    assert "shadowlane_chunks_total 10.0" in scraped
