"""The credit that was learned for each lower tier of an engine can be scraped; of none there is no sample."""

import re
from pathlib import Path

from prometheus_client import generate_latest

from gateway.fleets.engine import Engine
from gateway.metrics import COUNTERS, GAUGES, WorkerMetrics
from gateway.processes.status import engine_series
from gateway.spec import EngineSpec
from routing.events.lower import REASONS
from routing.types import Rates


def exposed(*engines: Engine) -> list[str]:
    metrics = WorkerMetrics(engines=[one.name for one in engines], fleets=["m"])
    gauges: dict[tuple[str, ...], float] = {}
    engine_series(engines, {}, gauges)
    metrics.flush({("kv_ignored", engines[0].name, "0", f"tier_{why}"): 1 for why in REASONS}, {}, gauges)
    return generate_latest(metrics.registry).decode().splitlines()


def test_credits_are_told_by_engine_and_tier_where_any_was_learned() -> None:
    one, other, new = (Engine(EngineSpec(n, f"http://engine-{n}", kind="vllm")) for n in range(3))
    one.load.rates = Rates(64, host_credit=0.75, host_samples=40.0)
    other.load.rates = Rates(64, store_credit=0.25)
    lines = [line for line in exposed(one, other, new) if line.startswith("shadowlane_tier_")]
    assert sorted(lines) == [
        'shadowlane_tier_answers{engine="http://engine-0",tier="host"} 40.0',
        'shadowlane_tier_answers{engine="http://engine-1",tier="store"} 0.0',
        'shadowlane_tier_credit{engine="http://engine-0",tier="host"} 0.75',
        'shadowlane_tier_credit{engine="http://engine-1",tier="store"} 0.25',
    ]


def test_each_reason_for_which_a_lower_tier_is_left_out_has_its_series() -> None:
    lines = exposed(Engine(EngineSpec(0, "http://engine-0", kind="vllm")))
    told = [line for line in lines if line.startswith("shadowlane_kv_ignored_total")]
    assert len(told) == len(REASONS) and not any('"other"' in line for line in told)


def test_the_docs_name_what_is_exported_with_its_labels() -> None:
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    section = text.partition("## Prometheus metrics of what engines hold\n")[2].partition("\n## ")[0]
    told = re.findall(r"^\| `shadowlane_(\w+)`.*? \| ([a-z, /]+) \|", section, re.MULTILINE)
    assert len(told) >= 9
    for name, labels in told:
        exported = GAUGES[name][1] if name in GAUGES else COUNTERS[name.removesuffix("_total")][1]
        assert set(exported) <= set(re.split(", | / ", labels)), name
