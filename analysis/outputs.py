"""How do a candidate's outputs stand?  Each metric with its interval, the floor, and what is beyond it."""

from collections.abc import Mapping
from math import inf
from typing import Any

from analysis.metrics._choose import every_metric
from analysis.metrics._metric import Unit
from analysis.stats.windows import Windows
from analysis.verdict import Interval, Spread, interval, outputs_label, outputs_unseen, ratio

_RANGES: Mapping[Unit, tuple[float, float]] = {
    "share": (0.0, 1.0),
    "difference": (-1.0, 1.0),
    "nats": (0.0, inf),
}


def outputs_shown(
    windows: Windows | None, candidate: str, alpha: float, floor: Mapping[str, Spread]
) -> dict[str, Any]:
    """Each output metric, JSON-able, and the label that first divergence gives; `unseen`: why none."""
    shown: dict[str, Any] = {}
    divergence: Interval | None = None
    for name, metric in every_metric().items():
        series = f"{name} {candidate}"
        found = None
        if windows is not None:
            held = windows.pairs_per_unit(series)
            # One imagined pair that differs in full: with no difference in n pairs this gives about 3 / n.
            prior = 1.0 / held**2 if metric.unit in ("share", "difference") and held else 0.0
            found = interval(windows.means(series), alpha / 2 if name == "first_divergence" else alpha, prior)
        if name == "first_divergence":
            divergence = found
        shown[name] = output_shown(metric.unit, found, floor.get(name))
    shown["label"] = outputs_label(divergence, floor.get("first_divergence"))
    shown["unseen"] = outputs_unseen(floor.get("first_divergence"))
    return shown


def output_shown(unit: Unit, found: Interval | None, floor: Spread | None) -> dict[str, Any]:
    """One metric's mean with its interval and the floor.

    `excess` is the mean less the floor's (of ratios: divided by it); its ends are as far apart as both
    intervals let them be, since the floor has a width of its own.
    """
    low, high = _RANGES.get(unit, (-inf, inf))

    def shown(value: float, least: float = low, most: float = high) -> float | None:
        return ratio(value) if unit == "ratio" else min(most, max(least, value))

    excess = None
    if found is not None and floor is not None:
        span = high - low
        excess = {
            "value": shown(found.mean - floor.mean, -span, span),
            "lower": shown(found.lower - min(floor.upper, high), -span, span),
            "upper": shown(found.upper - max(floor.lower, low), -span, span),
        }
    return {
        "unit": unit,
        "value": None if found is None else shown(found.mean),
        "lower": None if found is None else shown(found.lower),
        "upper": None if found is None else shown(found.upper),
        "floor": None if floor is None else shown(floor.mean),
        "excess": excess,
        "units": 0 if found is None else found.units,
    }


def floor_shown(floor: Mapping[str, Spread]) -> dict[str, float | None]:
    """What the control gives against itself, by metric."""
    return {
        name: output_shown(metric.unit, None, floor.get(name))["floor"]
        for name, metric in every_metric().items()
    }
