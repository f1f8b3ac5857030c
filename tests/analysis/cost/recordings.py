"""Arms of known cost: pairs at a given rate, and GPUs of known power that are read every second."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import numpy as np
from msgspec.structs import replace

from analysis.arm_figures import has_slo
from analysis.columns import Columns
from analysis.cost.energy import GpuReadings
from analysis.cost.figures import Recorded
from analysis.cost.prices import Prices
from analysis.cost.tally import Tally
from analysis.measure import PairRecord
from analysis.spec import ExperimentSpec
from tests.analysis.fleet import pair_record

S = 1_000_000_000
WINDOW_NS = 2 * S
SPEC = ExperimentSpec("trial", "fleet", ("same", "slow"), slo_ttft_ms=250.0, slo_tpot_ms=30.0)
PACES = {"same": 1.0, "slow": 1.0}
PRICES = Prices("prices.yaml", "USD", {"H200": 3.6})
# Each answer has 100 tokens of prompt and 30 of its own.
INPUT, OUTPUT = 100, 30


def pairs(rates: Sequence[float], seconds: float = 120.0, seed: int = 1) -> Iterator[PairRecord]:
    """Requests at each of these rates for so long, at random instants, with a minute's pause between two."""
    rng = Random(seed)
    for number, rate in enumerate(rates):
        begin_s = at_s = number * (seconds + 60.0)
        while (at_s := at_s + rng.expovariate(rate)) < begin_s + seconds:
            yield _at(pair_record(0, PACES, rng=rng), int(at_s * S))


def _at(record: PairRecord, at_ns: int) -> PairRecord:
    by_ns = at_ns - record.at_ns
    answers = tuple(
        replace(one, sent_ns=one.sent_ns + by_ns, end_ns=one.end_ns + by_ns, ttft_ms=200.0, tpot_ms=20.0)
        for one in record.answers
    )
    return replace(record, at_ns=at_ns, answers=answers)


def gpu(
    second: float, watts: float | None, joules: float | None, uuid: str = "GPU-1", name: str = "NVIDIA H200"
) -> dict[str, Any]:
    told = {"uuid": uuid, "name": name, "power_w": watts, "energy_mj": None}
    return told if joules is None else {**told, "energy_mj": round(joules * 1000)}


def readings(
    seconds: int,
    watts: float = 500.0,
    every_s: float = 1.0,
    arms: Sequence[str] = ("control", "same", "slow"),
) -> Iterator[dict[str, Any]]:
    """Every arm's one GPU at constant power, its counter rising as it must."""
    at_s = -1.0
    while at_s <= seconds + 1:
        for arm in arms:
            told = [gpu(at_s, watts, 10_000 + watts * at_s, f"GPU-{arm}")]
            yield {"arm": arm, "at_ns": int(at_s * S), "source": "nvml", "gpus": told}
        at_s += every_s


def recorded(
    taken: Sequence[PairRecord],
    told: Sequence[dict[str, Any]] = (),
    prices: Prices | None = PRICES,
    spec: ExperimentSpec = SPEC,
    change: Callable[[PairRecord], PairRecord] = lambda record: record,
) -> Recorded:
    tally, gpus = Tally(spec), GpuReadings()
    if taken:
        columns = Columns.of(change(record) for record in taken)
        tally.add(columns, np.array([record.at_ns for record in taken]) // WINDOW_NS)
    for frame in told:
        gpus.add(frame)
    return Recorded(tally, gpus, prices, WINDOW_NS, has_slo(spec), spec.alpha)
