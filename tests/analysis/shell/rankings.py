"""Rankings shaped as a trial shows them, for what only displays them; the figures are made up."""

import math
import random
from typing import Any

from analysis.cost.axes import axes
from analysis.cost.section import section
from analysis.why.diagnosis import Diagnoses
from analysis.why.engines import Reading
from analysis.why.signals import Telemetry
from tests.analysis.cost.recordings import SPEC, S, pairs, readings, recorded

ARMS = {"fp8-kv": 0.81, "fp8-again": 0.995, "spec-ngram": 1.14}


def status(*, engine_up: bool = True, experiments: int = 1) -> dict[str, Any]:
    """A status with one worker, two engines, and the shadow."""
    engines = [
        {
            "fleet": "llama-3.1-70b",
            "id": n,
            "url": f"http://10.0.0.{5 + n}:8000",
            "kind": "vllm",
            "up": engine_up or n == 0,
            "inflight": 7 + 4 * n,
            "models": ["llama-3.1-70b"],
            "error": None if engine_up or n == 0 else "connection refused",
        }
        for n in range(2)
    ]
    spec = {
        "name": "fp8-kv-cache",
        "fleet": "llama-3.1-70b",
        "candidates": list(ARMS),
        "calibration_pairs": 100,
        "calibration_s": 20.0,
    }
    fresh = {"fresh": True, "age_s": 0, "draining": False, "listening": True}
    return {
        "version": "0.1.0",
        "ready": {"ready": True, "reasons": []},
        "processes": [{"process": "shadow", **fresh}, {"process": "worker-0", **fresh, "engines": engines}],
        "experiments": [spec] * experiments,
        "inbox": {"waiting": 0, "waiting_bytes": 0},
        "frames": {"pair": 4211},
        "troubles": {},
        "logs": {},
    }


def _quantiles(p50: float) -> dict[str, float]:
    return {"p50": p50, "p95": p50 * 2.6}


def _arm(name: str, ratio: float, n: int, errors: int) -> dict[str, Any]:
    return {
        "name": name,
        "n": n,
        "errors": errors,
        "ttft_ms": _quantiles(183.0 * ratio),
        "itl_ms": _quantiles(21.7 * ratio),
        "tpot_ms": _quantiles(22.4 * ratio),
        "e2e_ms": _quantiles(3350.0 * ratio),
    }


def _verdict(ratio: float, half: float, windows: int) -> dict[str, Any]:
    lower, upper = ratio * math.exp(-half), ratio * math.exp(half)
    label = "FASTER" if upper < 1 / 1.03 else "SLOWER" if lower > 1.03 else "UNDECIDED"
    if lower > 1 / 1.03 and upper < 1.03:
        label = "EQUIVALENT"
    return {
        "label": label,
        "word": label,
        "why": None,
        "ratio": ratio,
        "lower": lower,
        "upper": upper,
        "units": windows,
        "progress": 1.0 if label != "UNDECIDED" else 0.62,
        "spread": half,
        "promotable": label == "FASTER",
        "withheld": None,
    }


def _score(value: float, floor: float) -> dict[str, Any]:
    return {"value": value, "lower": value - 0.02, "upper": value + 0.02, "floor": floor, "why": None}


def ranking(*, phase: str = "live", windows: int = 240, withheld: str | None = None) -> dict[str, Any]:
    """Three candidates: one faster, one like control, one slower and not sure about TTFT.

    `withheld`: of the slower one two verdicts are, for this reason, and of its E2E there is no interval.
    """
    rng = random.Random(7)
    candidates = []
    for rank, (name, ratio) in enumerate(ARMS.items(), 1):
        verdicts = {
            "ttft": _verdict(1 + (ratio - 1) * 0.4, 0.062 if name == "spec-ngram" else 0.02, windows),
            "itl": _verdict(ratio, 0.017, windows),
            "tpot": _verdict(ratio, 0.014, windows),
            "e2e": _verdict(1 + (ratio - 1) * 0.9, 0.02, windows),
        }
        if withheld and name == "spec-ngram":
            verdicts["tpot"] |= {"withheld": withheld, "word": "WITHHELD"}
            verdicts["itl"] |= {"withheld": withheld, "word": "WITHHELD"}
            none = dict.fromkeys(("ratio", "lower", "upper"))
            verdicts["e2e"] |= {"why": "1 windows in which both arms have one, 2 needed", **none}
        series = {
            metric: [
                [2.0 * k, verdicts[metric]["ratio"] * math.exp(rng.gauss(0, spread))]
                for k in range(1, windows + 1)
            ]
            for metric, spread in (("tpot", 0.05), ("ttft", 0.11))
        }
        outputs: dict[str, Any] = {
            "exact_match": _score(0.71 if name == "fp8-kv" else 0.86, 0.87),
            "edit_similarity": _score(0.902 if name == "fp8-kv" else 0.957, 0.961),
            "length_ratio": _score(1.01, 1.0),
            "finish_reason": _score(0.994, 0.996),
            "tool_calls": {
                **dict.fromkeys(("value", "lower", "upper", "floor")),
                "why": "nothing of the kind",
            },
            "label": {"fp8-kv": "DIVERGES", "fp8-again": "SAME"}.get(name, "UNDECIDED"),
            "lacking": "about 553 are needed" if name == "spec-ngram" else None,
        }
        arm = _arm(name, ratio, 4211, 3 if name == "spec-ngram" else 0)
        candidates.append({**arm, "rank": rank, "verdicts": verdicts, "outputs": outputs, "series": series})
    return {
        "experiment": "fp8-kv-cache",
        "fleet": "llama-3.1-70b",
        "phase": phase,
        "epoch": 2,
        "pairs": 4211,
        "windows": windows,
        "window_s": 2.0,
        "tau_pairs": 1.7,
        "alpha": 0.05,
        "margin": 0.03,
        "elapsed_s": 2.0 * windows,
        "books": {
            "admitted": 4388,
            "paired": 4211,
            "dropped": {"calibration": 112, "arm_error": 38, "too_large": 9},
        },
        "checks": [
            {"name": "dispatch_lag", "ok": True, "detail": "99 % of copies left within 1.8 ms of each other"},
            {"name": "load_balance", "ok": True, "detail": "arms served the same requests, ±0.4 % tokens"},
            {
                "name": "cache_parity",
                "ok": False,
                "detail": "spec-ngram read 8 % fewer cached tokens than control",
            },
            {"name": "enough_units", "ok": None, "detail": "11 of 15 windows for p99"},
        ],
        "production": {"observed_only": True, **_arm("production", 1.12, 4390, 2)},
        "control": {
            **_arm("control", 1.0, 4211, 0),
            "floor": {"exact_match": 0.87, "edit_similarity": 0.961},
        },
        "candidates": candidates,
        "decided": False,
        "calibration": {"progress": 0.41, "pairs": 41, "wanted_pairs": 100, "wanted_s": 20.0},
        "summary": "fp8-kv is 19.0 % faster per token (17.8 % to 20.2 %), but answers otherwise.",
    }


def conditions() -> dict[str, Any]:
    """What a ranking adds where GPUs were read, tokens were forced, and production's load is known."""
    gpu = {
        "uuid": "GPU-7d1f",
        "name": "NVIDIA H100 80GB HBM3",
        "utilisation": 0.71,
        "memory_used_bytes": 67_753_738_240,
        "power_w": 412.4,
        "energy_wh": 20.5,
        "sm_clock_mhz": 1755.0,
        "sm_clock_least_mhz": 1410.0,
        "throttled": 0.12,
        "throttling": {"power_cap": 0.12},
        "xid": [79],
    }
    unread: dict[str, Any] = {**dict.fromkeys(gpu), "uuid": "GPU-00aa", "throttling": {}, "xid": []}
    verdicts = {key: _verdict(0.81, 0.01, 20) for key in ("itl", "tpot", "e2e")}
    return {
        "load": {
            "production": 8.0,
            "control_of_production": 0.99,
            "arms": {"control": 7.9, "fp8-kv": 6.4},
            "rate": 0.5,
            "matched": True,
        },
        "hardware": {
            "control": {"readings": 9, "gpus": [gpu]},
            "fp8-kv": {"readings": 1, "gpus": [unread]},
        },
        "forced": {
            "pairs": 300,
            "wanted_pairs": 300,
            "windows": 20,
            "why": None,
            "candidates": {"fp8-kv": verdicts},
        },
        "scored": scored(),
        "marked_pairs": {"warm_up": 17},
        "unused_pairs": 3,
    }


def scored() -> dict[str, Any]:
    """What a ranking says of tokens that all arms scored."""

    def told(unit: str, value: float, floor: float, excess: float, radius: float) -> dict[str, Any]:
        ends = {"value": excess, "lower": excess - radius, "upper": excess + radius}
        return {"unit": unit, "value": value, "lower": None, "upper": None, "floor": floor, "excess": ends}

    outputs = {
        "kl_k3": told("nats", 0.0123, 0.0004, 0.0119, 0.0021),
        "kl_top": told("nats", 0.0101, 0.0003, 0.0098, 0.0011),
        "logprob_gap": told("ratio", 1.021, 1.001, 1.0198, 0.004),
        "flips": told("share", 0.0131, 0.0021, 0.011, 0.002),
        "flips_when_sure": {
            **told("share", 0.0, 0.0, 0.0, 0.0),
            "value": None,
            "floor": None,
            "excess": None,
        },
    }
    return {"pairs": 300, "wanted_pairs": 300, "windows": 30, "why": None, "outputs": {"fp8-kv": outputs}}


def judged() -> dict[str, Any]:
    """What a ranking adds of cost and limits: of pairs under three loads, each arm's one GPU and its engine.

    The slow arm has too little room in its KV cache, the others' engines tell nothing.
    """
    known = recorded(list(pairs([2.0, 4.0, 8.0], 240.0)), list(readings(840)))
    numbers = known.tally.of("control").of("number")
    telemetry = Telemetry()
    for second in range(840):
        said = {"running": 9.0, "queued": 5.0, "kv_usage": 0.99, "preemptions": 3.0 * second}
        telemetry.engine(Reading("slow", second * S, 0.0, 9 * second * S, "vllm", said))
    arms = ("control", "same", "slow")
    return {
        "cost": section(known, SPEC, axes(known, SPEC.candidates, numbers)),
        "why": Diagnoses().why({arm: known.runs(arm) for arm in arms}, telemetry),
    }


def launched(*states: str, hardware: str | None = None) -> dict[str, Any]:
    """What a status has of launched engines: the control's and candidates', in these states."""
    engines = [
        {
            "experiment": "fp8-kv-cache",
            "arm": arm,
            "url": f"http://127.0.0.1:{20_000 + n}",
            "state": state,
            "why": "it exited with status 2" if state in ("failed", "restarting") else None,
            "starts": 1 + n,
            "deaths": 3 * (state == "failed"),
            "gpus": [f"GPU-{n}"] if state in ("ready", "starting", "warming") else [],
            "lines": ["usage: engine <options>", "no such option --kv"] if state == "failed" else [],
        }
        for n, (arm, state) in enumerate(zip(("control", *ARMS), states, strict=False))
    ]
    return {"engines": engines, "hardware": {"source": "NVML", "gpus": 2, "error": hardware}}


def turns(**more: Any) -> dict[str, Any]:
    """What the shadow process tells of an experiment whose arms take turns."""
    slots = {"standing": "control", "blocks": 12, "turns": 9, "troubles": {}, "replay": None, "over": False}
    return {"experiment": "fp8-kv-cache", "slots": {**slots, **more}}
