"""How do a candidate's outputs stand?  Each metric with its interval, the floor, and what is beyond it."""

from collections.abc import Mapping
from typing import Any

from analysis.calibration import DIVERGENCE
from analysis.lacking import outputs_lacking
from analysis.metrics._choose import every_metric
from analysis.metrics._metric import Unit
from analysis.modes import LIVE
from analysis.score_intervals import MOST, NEVER_BELOW_0, prior_of, score_interval, why_no_interval
from analysis.stats.windows import Windows
from analysis.verdict import Interval, Spread, outputs_label, ratio
from analysis.wording import CALIBRATING, no_score


def outputs_shown(
    windows: Windows | None, candidate: str, alpha: float, floor: Mapping[str, Spread], mode: str = LIVE
) -> dict[str, Any]:
    """Each output metric, JSON-able, and the label that first divergence gives; `lacking`: until when none.

    Of `alpha` one half is spent here, the other on the floor: so what is beyond it holds, too.
    """
    shown: dict[str, Any] = {}
    divergence: Interval | None = None
    prior = 0.0
    for name, metric in every_metric().items():
        series = f"{name} {candidate}"
        found = None
        why = no_score(None, mode)
        if windows is not None:
            means, pairs_per_unit = windows.means(series), windows.pairs_per_unit(series)
            found = score_interval(means, metric.unit, pairs_per_unit, alpha / 2)
            why = no_score(len(means), mode) or why_no_interval(len(means), mode)
            if name == DIVERGENCE:
                divergence, prior = found, prior_of(metric.unit, pairs_per_unit)
        shown[name] = output_shown(metric.unit, found, floor.get(name), why)
    shown["label"] = outputs_label(divergence, floor.get(DIVERGENCE))
    shown["lacking"] = CALIBRATING
    if windows is not None:
        shown["lacking"] = outputs_lacking(divergence, floor.get(DIVERGENCE), prior, alpha / 2, mode)
    return shown


def output_shown(
    unit: Unit, found: Interval | None, floor: Spread | None, why: str | None = None
) -> dict[str, Any]:
    """One metric's mean with its interval and the floor; `why` there is no interval, where there is none.

    `excess` is the mean less the floor's (of ratios: divided by it); its ends are as far apart as both
    intervals let them be, since the floor has a width of its own.
    """
    high = MOST[unit]
    low = 0.0 if unit in NEVER_BELOW_0 else -high

    def shown(value: float) -> float | None:
        return _within(unit, value, low, high)

    excess = None
    known = found if why is None else None
    if known is not None and floor is not None:
        lower, upper = known.lower - min(floor.upper, high), known.upper - max(floor.lower, low)
        excess = excess_shown(unit, known.mean - floor.mean, lower, upper)
    return {
        "unit": unit,
        "value": None if found is None else shown(found.mean),
        "lower": None if known is None else shown(known.lower),
        "upper": None if known is None else shown(known.upper),
        "why": why,
        "floor": None if floor is None else shown(floor.mean),
        "excess": excess,
        "units": 0 if found is None else found.units,
    }


def excess_shown(unit: Unit, value: float, lower: float, upper: float) -> dict[str, float | None]:
    """What is beyond the floor, with its ends, none further than two means can be apart; of logs ratios."""
    span = MOST[unit] if unit in NEVER_BELOW_0 else 2.0 * MOST[unit]
    ends = {"value": value, "lower": lower, "upper": upper}
    return {end: _within(unit, at, -span, span) for end, at in ends.items()}


def _within(unit: Unit, value: float, least: float, most: float) -> float | None:
    within = min(most, max(least, value))
    return ratio(within) if unit == "ratio" else within


def floor_shown(floor: Mapping[str, Spread]) -> dict[str, float | None]:
    """What the control gives against itself, by metric."""
    return {
        name: output_shown(metric.unit, None, floor.get(name))["floor"]
        for name, metric in every_metric().items()
    }
